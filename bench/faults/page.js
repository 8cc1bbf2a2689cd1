/** Draws the report: what each kind has done, the faults on a line of time, and for a soak its samples. */

;(() => {
  const report = JSON.parse(document.getElementById('data').textContent)
  const root = document.querySelector('main')
  const SVG = 'http://www.w3.org/2000/svg'
  const MINUTE_WIDTH = 10
  const TROUBLES = Object.keys(report.total)
  const startedAt = Date.parse(report.startedAt)

  function add(parent, tag, text = '', className = '') {
    const element = document.createElement(tag)
    element.textContent = text
    if (className) element.className = className
    return parent.appendChild(element)
  }

  function draw(parent, tag, attributes, text = '') {
    const element = document.createElementNS(SVG, tag)
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
    element.textContent = text
    return parent.appendChild(element)
  }

  function table(columns, rows) {
    const element = add(root, 'table')
    const addRow = (cells, tag) => {
      const row = add(element, 'tr')
      for (const cell of cells) add(row, tag, String(cell))
    }
    addRow(columns, 'th')
    for (const row of rows) addRow(row, 'td')
  }

  const seconds = (value) => `${value.toFixed(1)} s`

  function kinds() {
    const cellsOf = ({ kind, times, recovery, longestSilence, ...troubles }) => {
      const recoveries = recovery ? [seconds(recovery.median), seconds(recovery.longest)] : ['never', 'never']
      return [kind, times, ...TROUBLES.map((trouble) => troubles[trouble]), ...recoveries, seconds(longestSilence)]
    }
    const names = TROUBLES.map((trouble) => (trouble === 'error' ? '500' : trouble))
    table(['', 'times', ...names, 'recovery', 'longest', 'silence'], report.rows.map(cellsOf))
    for (const { kind, forgotten, repeated } of report.rows)
      if (forgotten + repeated > 0)
        add(root, 'p', `${kind}: ${forgotten} forgotten orders, ${repeated} events and mails that came again`, 'note')
  }

  /** Ten minutes a strip: faults as bars with their recovery, over the certificates of each second. */
  function timeLine() {
    add(root, 'h2', 'Time line')
    add(root, 'p', 'Bars are faults, their pale ends recovery; below are the certificates of each second.', 'note')
    const counts = report.certificatesBySecond
    const most = Math.max(1, ...counts)
    const inStrip = 60 * MINUTE_WIDTH
    for (let from = 0; from < counts.length; from += inStrip) {
      const strip = draw(root, 'svg', { viewBox: '0 0 1000 110' })
      const x = (second) => (1000 * (second - from)) / inStrip
      for (const [index, { kind, target, beganAt, endedAt, recoveryMs }] of report.faults.entries()) {
        const [begin, end] = [(beganAt - startedAt) / 1000, (endedAt - startedAt) / 1000]
        if (begin < from || begin >= from + inStrip) continue
        const y = 12 + 12 * (index % 4)
        const isBad = recoveryMs === undefined || report.findings.some(({ fault }) => fault === index)
        const recovered = end + (recoveryMs ?? 60_000) / 1000
        draw(strip, 'rect', { x: x(begin), y, width: x(from + recovered - begin), height: 10, fill: 'var(--recovery)' })
        const fill = isBad ? 'var(--bad)' : 'var(--fault)'
        const bar = draw(strip, 'rect', { x: x(begin), y, width: Math.max(2, x(from + end - begin)), height: 10, fill })
        draw(bar, 'title', {}, `${index + 1}: ${kind} (${target})`)
        draw(strip, 'text', { x: x(begin) + 3, y: y + 9 }, kind)
      }
      for (const [offset, count] of counts.slice(from, from + inStrip).entries()) {
        const height = (40 * count) / most
        draw(strip, 'rect', { x: x(from + offset), y: 105 - height, width: 1, height, fill: 'var(--bar)' })
      }
      draw(strip, 'text', { x: 0, y: 9 }, `${from / 60} min`)
    }
  }

  function findings() {
    if (report.findings.length === 0) return
    add(root, 'h2', 'At odds')
    for (const { trouble, what, at, fault } of report.findings.slice(0, 500)) {
      const cause = fault === undefined ? '' : `, by ${fault + 1} ${report.faults[fault].kind}`
      add(root, 'p', `${trouble}: ${what} (${new Date(at).toISOString()}${cause})`, 'bad')
    }
  }

  /** One plot for each series of a soak. */
  function soak({ series, verdicts, perSecond }) {
    add(root, 'h2', `Soak at ${perSecond.toFixed(1)} certificates a second`)
    table(
      ['', 'at the start', 'in the end', 'change an hour', ''],
      verdicts.map(({ name, first, last, perHour, isFlat }) => [
        name,
        first,
        last,
        perHour ?? 'peaks',
        isFlat ? 'flat' : 'RISES',
      ]),
    )
    for (const { name, points } of series) {
      add(root, 'h3', name)
      const plot = draw(root, 'svg', { viewBox: '0 0 1000 120' })
      const most = Math.max(1e-9, ...points.map(([, value]) => value))
      const end = Math.max(1, ...points.map(([at]) => at))
      const place = ([at, value]) => `${((1000 * at) / end).toFixed(1)} ${(115 - (105 * value) / most).toFixed(1)}`
      draw(plot, 'path', { d: `M${points.map(place).join('L')}` })
      draw(plot, 'text', { x: 0, y: 10 }, `${most.toFixed(1)}`)
      draw(plot, 'text', { x: 960, y: 118 }, `${(end / 60).toFixed(0)} min`)
    }
  }

  add(root, 'h1', report.soak ? 'Soak' : `Faults with seed ${report.seed}`)
  add(add(root, 'p'), 'code', `npm run faults -- ${report.command.join(' ')}`)
  add(root, 'p', `${report.startedAt} to ${report.endedAt}`, 'note')
  const { certificates, signatures, revoked, events, mails } = report.books
  add(
    root,
    'p',
    `${certificates} certificates, ${signatures} signatures, ${revoked} revoked, ` +
      `${events.received} events (${events.distinct} distinct), ${mails.received} mails (${mails.distinct} distinct)`,
  )
  if (report.acts) {
    const { restricting, permitting, restored, told } = report.acts
    add(
      root,
      'p',
      `${restricting} restricting and ${permitting} permitting acts; promotions lost ${restored} restrictions that came back, ` +
        `and ${told} entries and accounts that are listed`,
    )
  }
  if (report.soak) soak(report.soak)
  if (report.faults.length > 0) kinds()
  findings()
  timeLine()
})()
