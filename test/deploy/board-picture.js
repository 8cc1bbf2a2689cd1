/** Draws the panels of the page's data with uPlot. */

;(() => {
  const COLORS = ['#3d6fd6', '#d9822b', '#2f9e5f', '#b3479e', '#cc3333', '#7a6ad8', '#888888', '#1b9aaa', '#a0522d']
  const rows = JSON.parse(document.getElementById('data').textContent)

  const inTime = (s) =>
    s === 0
      ? '0'
      : s >= 172_800
        ? `${Math.round(s / 86_400)} d`
        : s >= 120
          ? `${+(s / 60).toFixed(1)} min`
          : s >= 1
            ? `${+s.toFixed(1)} s`
            : `${+(1000 * s).toFixed(1)} ms`
  const plain = (value) => (value >= 1000 ? Math.round(value).toLocaleString('en') : String(+value.toPrecision(3)))
  const TEXTS = {
    s: inTime,
    bytes: (value) =>
      value >= 1e6 ? `${Math.round(value / 1e6)} MB` : value >= 1e3 ? `${Math.round(value / 1e3)} kB` : `${value} B`,
    percentunit: (value) => `${Math.round(100 * value)} %`,
    ops: (value) => `${plain(value)}/s`,
    short: plain,
  }

  function add(parent, tag, text = '', className = '') {
    const element = document.createElement(tag)
    element.textContent = text
    element.className = className
    return parent.appendChild(element)
  }

  const isKnown = ([, value]) => Number.isFinite(value)

  function draw(box, { unit, lines }) {
    const shown = lines.filter(({ points }) => points.some(isKnown))
    if (shown.length === 0) return add(box, 'div', 'nothing has happened', 'none')
    const times = [...new Set(shown.flatMap(({ points }) => points.map(([at]) => at)))].sort((a, b) => a - b)
    const values = shown.map(({ points }) => {
      const known = new Map(points.filter(isKnown))
      return times.map((at) => known.get(at) ?? null)
    })
    const axis = { stroke: '#666', grid: { stroke: '#0001' }, ticks: { show: false }, font: '11px system-ui' }
    new uPlot(
      {
        width: box.clientWidth - 16,
        height: 165,
        legend: { show: false },
        series: [
          {},
          ...shown.map((_, i) => ({
            stroke: COLORS[i % COLORS.length],
            width: 1.5,
            spanGaps: true,
            points: { show: false },
          })),
        ],
        scales: { x: { time: false }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
        axes: [
          { ...axis, size: 26, values: (_, ticks) => ticks.map((s) => `${+(s / 60).toFixed(1)} min`) },
          { ...axis, size: 62, values: (_, ticks) => ticks.map(TEXTS[unit]) },
        ],
      },
      [times.map((at) => at - times[0]), ...values],
      box,
    )
    const legend = add(box, 'div', '', 'legend')
    for (const [i, { label }] of shown.entries()) {
      const entry = add(legend, 'span')
      add(entry, 'i').style.background = COLORS[i % COLORS.length]
      entry.append(label)
    }
  }

  for (const { title, panels } of rows) {
    add(document.body, 'h2', title)
    const row = add(document.body, 'div', '', panels[0].isNumber ? 'row numbers' : 'row')
    for (const panel of panels) {
      const box = add(row, 'section')
      add(box, 'h3', panel.title)
      if (panel.isNumber) add(box, 'div', TEXTS[panel.unit](panel.lines[0]?.points.at(-1)?.[1] ?? 0), 'figure')
      else draw(box, panel)
    }
  }
})()
