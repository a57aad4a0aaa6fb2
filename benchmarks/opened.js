// What is wrong once a page is unfolded, as sentences: faults on it and inside its popovers, and hover boxes of the outermost marks of its
// charts that the chart cuts off; its margin of 3 px may lie outside.
async () => {
  const WRONG = ':is([data-testid=stException], [data-testid=stAlertContentError])';
  const main = document.querySelector('[data-testid=stMainBlockContainer]'), found = [...main.querySelectorAll(WRONG)].map(one => one.innerText);
  const wait = ms => new Promise(done => setTimeout(done, ms));
  for (const button of main.querySelectorAll('[data-testid=stPopover] button')) {
    button.click();
    await wait(600);
    const body = document.querySelector('[data-testid=stPopoverBody]');
    if (!body) found.push(`does not open: ${button.innerText}`);
    else for (const one of body.querySelectorAll(WRONG)) found.push(`${button.innerText}: ${one.innerText}`);
    button.click();
    await wait(200);
  }
  for (const chart of main.querySelectorAll('.js-plotly-plot')) {
    for (const area of chart.querySelectorAll('.nsewdrag')) {
      const paper = chart.querySelector('.main-svg').getBoundingClientRect(), {left, right, top, bottom} = area.getBoundingClientRect();
      const marks = [...chart.querySelectorAll(`.subplot.${area.dataset.subplot} .point`)].map(one => one.getBoundingClientRect())
        .map(box => [box.left + box.width / 2, box.top + box.height / 2]);
      const ends = [([x, y]) => x + y, ([x, y]) => x - y, ([x, y]) => -x - y, ([x, y]) => y - x]
        .map(far => marks.reduce((best, one) => !best || far(one) > far(best) ? one : best, null)).filter(Boolean);
      for (const x of [left + 6, right - 6]) for (const y of [top + 6, bottom - 6]) ends.push([x, y]);
      for (const [clientX, clientY] of ends) {
        area.dispatchEvent(new MouseEvent('mousemove', {clientX, clientY, bubbles: true}));
        await wait(80);
        for (const box of chart.querySelectorAll('.hovertext')) {
          const at = box.getBoundingClientRect(), out = Math.max(paper.left - at.left, at.right - paper.right, paper.top - at.top, at.bottom - paper.bottom);
          if (out > 3) found.push(`hover box ${Math.round(out)} px outside its chart: ${box.textContent.slice(0, 60)}`);
        }
      }
      area.dispatchEvent(new MouseEvent('mouseout', {bubbles: true}));
    }
  }
  return found;
}
