// One entry of the browser's history per page that a reader opened. Streamlit writes an entry for every parameter that
// the server names, the first ones before the page's own address: "Back" led to views that nobody had seen.
(() => {
  if (window.pruneauditHistory) return;
  window.pruneauditHistory = true;
  const push = history.pushState.bind(history);
  const replace = history.replaceState.bind(history);
  let seen = null; // the address of the view in which the reader last did something
  for (const kind of ["pointerdown", "keydown", "click"]) {
    addEventListener(kind, () => { seen = location.href; }, true);
  }
  addEventListener("popstate", () => { seen = null; });
  history.pushState = (data, title, address) => {
    const there = new URL(address, location.href);
    if (there.pathname === location.pathname || seen === null) {
      replace(data, title, there.href); // the same page, or one that led on by itself
      return;
    }
    if (new URL(seen).pathname === location.pathname) replace(data, title, seen);
    seen = null;
    push(data, title, there.href);
  };
})();
