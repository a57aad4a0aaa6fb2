"""The app behind its gate: `streamlit run` finds `app` here. Started by pages/shared/serve.py."""

from __future__ import annotations

import os

import streamlit as st
from starlette.middleware import Middleware

from engine.core.files import PROJECT
from pages.shared.gate import Gate, Rooted

HOSTS, TOKEN = "PRUNEAUDIT_HOSTS", "PRUNEAUDIT_TOKEN"

app = st.App(
    PROJECT / "app.py",
    middleware=[
        Middleware(
            Gate, hosts=os.environ.get(HOSTS, "").split(","), token=os.environ.get(TOKEN, "")
        ),
        Middleware(Rooted),
    ],
)
