// What does not fit on a slide of the page Present, as sentences: taller than the window, or a text outside the slide, its picture or over another.
() => {
  const found = [], main = document.querySelector('[data-testid=stMain]');
  const slide = document.querySelector('[class*=st-key-slide_]'), plot = slide.querySelector('.js-plotly-plot');
  if (main.scrollHeight > innerHeight) found.push(`${main.scrollHeight} px tall in a window of ${innerHeight}`);
  if (slide.scrollHeight > slide.clientHeight) found.push(`its parts take ${slide.scrollHeight} px of its ${slide.clientHeight}`);
  if (document.querySelector('.st-key-tour_line')?.checkVisibility()) found.push('the tour stands above it');
  const inside = (one, box) => one.left > box.left - 1 && one.right < box.right + 1 && one.top > box.top - 1 && one.bottom < box.bottom + 1;
  const said = text => text.textContent.trim().slice(0, 40);
  const texts = (selector, root) => [...root?.querySelectorAll(selector) ?? []].filter(text => said(text) && text.getBoundingClientRect().width);
  const page = slide.getBoundingClientRect(), picture = plot?.getBoundingClientRect();
  for (const text of texts('h1, p', slide)) if (!inside(text.getBoundingClientRect(), page)) found.push(`outside the slide: ${said(text)}`);
  for (const text of texts('.xtick text, .ytick text, .g-xtitle text, .g-ytitle text, .legendtext, .annotation-text', plot))
    if (!inside(text.getBoundingClientRect(), picture)) found.push(`outside its picture: ${said(text)}`);
  for (const kind of ['.xtick text', '.ytick text', '.legendtext', '.annotation-text']) {
    const boxes = texts(kind, plot).map(text => [text, text.getBoundingClientRect()]);
    boxes.forEach(([text, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 3) found.push(`${said(text)} lies over ${said(other)}`);
    }));
  }
  const foot = slide.querySelector('.pa-footnote')?.getBoundingClientRect(), place = slide.querySelector('.pa-step').getBoundingClientRect();
  const title = slide.querySelector('h1').getBoundingClientRect(), headline = slide.querySelector('.pa-headline').getBoundingClientRect();
  if (title.bottom > headline.top + 1) found.push('its title lies over its headline');
  if (foot && picture && picture.bottom > foot.top + 1) found.push(`its picture lies ${Math.round(picture.bottom - foot.top)} px over its footnote`);
  if (place.height > 40 * page.height / 720) found.push('its number is broken into lines');
  const wide = plot?.querySelector('.g-xtitle text');
  if (plot && !wide && !plot.querySelector('.xtick text')) found.push('its picture has no axis');
  return found;
}
