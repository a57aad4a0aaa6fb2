"use strict";
(() => {
  const PAPER = 690; // pixels between the margins of an A4 page
  const data = JSON.parse(document.getElementById("data").textContent);
  const prefers = window.matchMedia("(prefers-color-scheme: dark)");
  let dark = prefers.matches;
  const draw = (inLight, width) => {
    document.documentElement.dataset.theme = dark && !inLight ? "dark" : "light";
    for (const [id, pair] of Object.entries(data.figures)) {
      const figure = dark && !inLight ? pair.dark : pair.light;
      const layout = width ? { ...figure.layout, width } : figure.layout;
      Plotly.react(id, figure.data, layout, data.config);
    }
  };
  prefers.addEventListener("change", (event) => { dark = event.matches; draw(); });
  document.getElementById("theme").addEventListener("click", () => { dark = !dark; draw(); });
  window.addEventListener("beforeprint", () => draw(true, PAPER));
  window.addEventListener("afterprint", () => draw());
  draw();
})();
