"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const prefers = window.matchMedia("(prefers-color-scheme: dark)");
  let dark = prefers.matches;
  const draw = () => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    for (const [id, pair] of Object.entries(data.figures)) {
      const figure = dark ? pair.dark : pair.light;
      Plotly.react(id, figure.data, figure.layout, data.config);
    }
  };
  prefers.addEventListener("change", (event) => { dark = event.matches; draw(); });
  document.getElementById("theme").addEventListener("click", () => { dark = !dark; draw(); });
  draw();
})();
