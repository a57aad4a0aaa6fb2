// Tools beside every chart, and the link to a view. The server puts the chart's key and table into the element before the chart;
// Streamlit takes no functions for the tools of its charts. What is saved is called after model, audit, chart and choice.
(() => {
  if (window.pruneauditSave) return;
  window.pruneauditSave = true;
  const hand = (text, kind, name) => {
    const link = Object.assign(document.createElement("a"), {href: URL.createObjectURL(new Blob([text], {type: kind})), download: name});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const called = key => {
    const run = new URLSearchParams(location.search).get("run") ?? "", model = document.querySelector(".pa-subject strong")?.textContent ?? "audit";
    const chosen = [...document.querySelectorAll('.st-key-choice :is([role="combobox"], input[type="range"])')]
      .map(one => one.getAttribute("aria-valuetext") || one.value || one.closest('[data-baseweb="select"]')?.innerText || "");
    const parts = [model, run.slice(0, 8), key, ...chosen];
    return parts.map(part => part.toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 40)).filter(Boolean).slice(0, 8).join("_");
  };
  const save = (chart, about, kind) => {
    if (kind === "csv") return hand(about.table, "text/csv", `${called(about.file)}.csv`);
    const plot = chart.querySelector(".js-plotly-plot"), {paper_bgcolor, font} = plot.layout;
    plot._context.toImageButtonOptions = {format: kind, filename: called(about.file), scale: kind === "png" ? 2 : 1};
    plot.layout.paper_bgcolor = getComputedStyle(document.querySelector('[data-testid="stApp"]')).backgroundColor;
    plot.layout.font = {...font, family: "sans-serif"}; // an image has no fonts of a page: measured with one that it has
    plot.querySelector(".modebar-btn").click(); // copies the layout at once
    Object.assign(plot.layout, {paper_bgcolor, font});
  };
  const tools = chart => {
    const box = chart.closest('[data-testid="stElementContainer"]');
    const about = () => box.previousElementSibling?.querySelector(".pa-alt")?.dataset;
    if (!about()?.file || box.querySelector(".pa-tools")) return;
    const row = Object.assign(document.createElement("div"), {className: "pa-tools"});
    for (const kind of about().table ? ["png", "svg", "csv"] : ["png", "svg"]) {
      const one = Object.assign(document.createElement("button"), {type: "button", textContent: kind.toUpperCase(), title: `Save as ${kind.toUpperCase()}`});
      one.addEventListener("click", () => save(chart, about(), kind));
      row.append(one);
    }
    box.append(row);
  };
  let due = false;
  const look = () => {
    due = false;
    document.querySelectorAll('[data-testid="stPlotlyChart"]').forEach(tools);
  };
  const soon = () => {
    if (!due) setTimeout(look, 50);
    due = true;
  };
  new MutationObserver(soon).observe(document.body, {childList: true, subtree: true});
  soon();
  addEventListener("click", async event => {
    const copy = event.target.closest?.(".pa-copy");
    if (!copy) return;
    await navigator.clipboard.writeText(location.href);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy link"; }, 2000);
  });
})();
