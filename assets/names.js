// The answer of a chart is its name for those who do not see it. The server puts the answer into the element before the
// chart; said to Streamlit as the chart's description, it would have the chart drawn anew at every step of the slider.
(() => {
  if (window.pruneauditNames) return;
  window.pruneauditNames = true;
  let due = false;
  const name = () => {
    due = false;
    for (const chart of document.querySelectorAll('[data-testid="stPlotlyChart"]')) {
      const before = chart.closest('[data-testid="stElementContainer"]')?.previousElementSibling;
      const answer = before?.querySelector(".pa-alt")?.dataset.answer;
      if (answer && chart.getAttribute("aria-label") !== answer) {
        chart.setAttribute("role", "figure");
        chart.setAttribute("aria-label", answer);
      }
    }
  };
  const soon = () => {
    if (!due) setTimeout(name, 50);
    due = true;
  };
  new MutationObserver(soon).observe(document.body, {
    childList: true, subtree: true, attributes: true, attributeFilter: ["data-answer", "aria-label"],
  });
  soon();
})();
