"""The app behind its gate: `streamlit run` finds `app` here. Started by pages/shared/serve.py."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from pages.shared.gate import Gate, Rooted

HOSTS, TOKEN = "PRUNEAUDIT_HOSTS", "PRUNEAUDIT_TOKEN"

app = st.App(
    Path(__file__).resolve().parents[2] / "app.py",
    middleware=[
        Middleware(
            Gate, hosts=os.environ.get(HOSTS, "").split(","), token=os.environ.get(TOKEN, "")
        ),
        Middleware(Rooted),
    ],
)
