// What benchmarks/screens.py asks of a page: {height, words, quoted, pale, overlaps}. Height in CSS pixels of the content.
// words: outside tables, charts and folded parts, and not the crosses in the place of a text that was not asked for; quoted: those of them that are a model's texts or captions of
// pictures, which are data; pale: texts of charts whose contrast with the page is below 4.5 to 1.
() => {
  const main = document.querySelector('[data-testid=stMainBlockContainer]');
  const SKIPPED = '.js-plotly-plot, table, [data-testid=stDataFrame], svg, style, script, [data-testid=stIconMaterial], '
    + '.pa-sr, .pa-veil, [data-testid=stTooltipContent]';
  const QUOTED = '.pa-passage, .pa-words, .pa-generated, .pa-shot';
  const count = text => text.split(/\s+/).filter(word => /[\p{L}\p{N}]/u.test(word)).length;
  const shown = {checkOpacity: true, checkVisibilityCSS: true};
  let words = 0, quoted = 0;
  const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const holder = walk.currentNode.parentElement;
    if (holder.closest(SKIPPED) || !holder.checkVisibility(shown)) continue;
    const box = holder.getBoundingClientRect();
    if (!box.width || !box.height) continue;  // folded
    const more = count(walk.currentNode.data);
    words += more;
    if (holder.closest(QUOTED)) quoted += more;
  }

  const rgb = colour => (colour.match(/[\d.]+/g) || [0, 0, 0]).map(Number);
  const over = (top, below) => { const a = top[3] ?? 1; return [0, 1, 2].map(i => a * top[i] + (1 - a) * below[i]); };
  const light = colour => colour.slice(0, 3).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const paper = rgb(getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor);
  const TEXTS = '.xtick text, .ytick text, .legendtext, .gtitle, .g-xtitle text, .g-ytitle text, .annotation-text';
  const pale = [];
  for (const text of main.querySelectorAll(TEXTS)) {
    const style = getComputedStyle(text), plate = text.closest('.annotation')?.querySelector('.bg');
    const behind = plate ? rgb(getComputedStyle(plate).fill) : [0, 0, 0, 0];
    if (plate && +getComputedStyle(plate).opacity && (behind[3] ?? 1) > .5) continue;  // on a plate of its own
    const fill = rgb(style.fill), alpha = (fill[3] ?? 1) * +style.opacity * +style.fillOpacity;
    const [a, b] = [light(over([...fill.slice(0, 3), alpha], paper)), light(paper)].sort((x, y) => y - x);
    if (alpha && text.textContent.trim() && (a + .05) / (b + .05) < 4.5) pale.push(text.textContent.trim().slice(0, 60));
  }
  // labels of one kind that lie over each other in a chart: by more than 2 px across and 3 px down
  const overlaps = [];
  for (const chart of main.querySelectorAll('.js-plotly-plot')) for (const kind of ['.xtick text', '.ytick text', '.legendtext']) {
    const boxes = [...chart.querySelectorAll(kind)].filter(text => !/rotate\((?!0)/.test(text.getAttribute('transform') ?? ''))
      .map(text => [text.textContent.trim().slice(0, 40), text.getBoundingClientRect()]).filter(([said, box]) => said && box.width);
    boxes.forEach(([said, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 3) overlaps.push(`${said} over ${other}`);
    }));
  }
  return {height: main.scrollHeight, words, quoted, pale, overlaps};
}
