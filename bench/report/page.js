/** Draws the report: loads the JSON document of the page and shows it as tables and uPlot plots. */

;(() => {
  const COLORS = ['#3d6fd6', '#d9822b', '#2f9e5f', '#b3479e', '#c33', '#7a6ad8', '#888', '#1b9aaa']
  const root = document.querySelector('main')
  const LATENCY = ['count', 'mean', 'p50', 'p90', 'p95', 'p99', 'max']
  const report = JSON.parse(document.getElementById('data').textContent)
  const letter = (index) => String.fromCharCode(65 + index)
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches

  const shown = (value) => (value == null ? '–' : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0))
  const percent = (share) => `${(100 * share).toFixed(0)} %`
  const nameOf = (index) => report.servers[index]?.name ?? letter(index)

  function add(parent, tag, text = '', className = '') {
    const element = document.createElement(tag)
    element.textContent = text
    if (className) element.className = className
    return parent.appendChild(element)
  }

  function table(parent, columns, rows) {
    const element = add(add(parent, 'div', '', 'scroll'), 'table')
    const addRow = (cells, tag) => {
      const row = add(element, 'tr')
      for (const cell of cells) add(row, tag, cell)
    }
    addRow(columns, 'th')
    for (const row of rows) addRow(row, 'td')
  }

  const line = (label, index) => ({ label, stroke: COLORS[index % COLORS.length], width: 1.5 })

  /** @param data The x values, then those of each line. */
  function plot(parent, title, data, lines, options = {}) {
    const box = add(parent, 'div')
    add(box, 'h3', title)
    const ink = isDark ? '#ccc' : '#444'
    const axis = { stroke: ink, grid: { stroke: isDark ? '#fff2' : '#0002' }, size: 60 }
    const { x = {}, log = false, xAxis = {} } = options
    const series = [{ label: 's', ...x }, ...lines]
    for (const one of series.slice(1)) one.value = (_, value) => shown(value)
    const settings = {
      ...{ width: Math.min(box.clientWidth || 500, 700), height: 260, series },
      scales: {
        x: { time: false },
        y: log ? { distr: 3 } : { range: (_, least, most) => [Math.min(0, least), most * 1.05] },
      },
      axes: [{ ...axis, ...xAxis, size: 40 }, axis],
    }
    new uPlot(settings, data, box)
  }

  function head() {
    const scenarios = new Set(report.measurements.map(({ scenario }) => scenario))
    const what = [...scenarios, ...(report.overload.length > 0 ? ['overload'] : [])]
    document.title = `Bench: ${what.join(', ')}`
    add(root, 'h1', document.title)
    const { machine, startedAt, commit } = report
    const { processors, processor, memoryBytes, system, node, loadAverage } = machine
    const memory = `${(memoryBytes / 1024 ** 3).toFixed(0)} GiB`
    add(add(root, 'p'), 'code', `npm run bench -- ${report.command.join(' ')}`)
    const when = `${startedAt.slice(0, 16).replace('T', ' ')} UTC, bench at ${commit ?? 'no commit'}`
    const facts = [
      when,
      `${processors} × ${processor}`,
      memory,
      system,
      `Node ${node}`,
      `load average ${shown(loadAverage)}`,
    ]
    add(root, 'p', facts.join(', '), 'note')
    if (report.interruptedBy) add(root, 'p', `Interrupted by ${report.interruptedBy}: figures until then.`, 'bad')
    const rows = report.servers.map((one, index) => [letter(index), one.name, one.commit?.slice(0, 7) ?? '', one.note])
    table(root, ['', 'server', 'commit', 'note'], rows)
  }

  /** Medians with their range, and ratios to the first server. */
  function figures(parent, { figures: all, rounds }) {
    const count = rounds[0]?.length ?? 0
    const range = ({ lowest, highest }, write) => (rounds.length > 1 ? ` (${write(lowest)}–${write(highest)})` : '')
    const spread = (one, write = shown) => (one == null ? '–' : write(one.median) + range(one, write))
    const others = Array.from({ length: Math.max(count - 1, 0) }, (_, index) => index + 1)
    const letters = Array.from({ length: count }, (_, index) => letter(index))
    const rowOf = ([name, { servers, ratios }]) => [
      ...[report.labels[name] ?? name, ...servers.map((one) => spread(one))],
      ...others.map((index) => spread(ratios[index], (value) => value.toFixed(2))),
    ]
    const columns = ['', ...letters, ...others.map((index) => `${letter(index)} by A`)]
    table(parent, columns, Object.entries(all).map(rowOf))
  }

  function latencies(parent, { scenario, latency, steps, lag }) {
    const rows = [[scenario, latency], ...Object.entries(steps), ...(lag ? [['generator lag', lag]] : [])]
    const cellsOf = (of) => LATENCY.map((one) => (one === 'count' ? String(of.count) : shown(of[one])))
    const named = rows.map(([name, of]) => [name, ...cellsOf(of)])
    table(parent, ['latency, ms', ...LATENCY], named)
  }

  /** Each percentile stands where its nines are: 90 at 1, 99 at 2. */
  const nines = (value) => -Math.log10(1 - Math.min(value, 99.995) / 100)

  function distribution(parent, curves) {
    const ticks = [0, 50, 90, 99, 99.9, 99.99]
    const data = [report.curvePercents.map(nines), ...curves.map(([, curve]) => curve.map((ms) => Math.max(ms, 0.01)))]
    const x = { label: 'percentile', value: (_, value) => (value == null ? '–' : shown(100 - 100 / 10 ** value)) }
    const xAxis = { splits: () => ticks.map(nines), values: () => ticks.map(String) }
    const lines = curves.map(([name], index) => line(name, index))
    plot(parent, 'Latency by percentile, ms', data, lines, { log: true, x, xAxis })
  }

  /** Counts in slots become rates. */
  function overTime(parent, { series: { slotSeconds, slots, server } }) {
    // The last slot may hold little but what was late.
    const whole = slots.length > 2 ? slots.slice(0, -1) : slots
    const xs = whole.map(({ at }) => at + slotSeconds / 2)
    const ends = ['succeeded', 'refused', 'failed', 'dropped'].filter((name) => slots.some((slot) => slot[name] > 0))
    const rates = ends.map((name) => whole.map((slot) => slot[name] / slotSeconds))
    plot(parent, 'Per second', [xs, ...rates], ends.map(line))
    const some = (name) => whole.map((slot) => (slot[name] > 0 ? slot[name] : null))
    plot(parent, 'Latency, ms', [xs, some('p50'), some('p99')], ['p50', 'p99'].map(line), { log: true })
    const roles = Object.keys(report.roles).filter((role) => server.some(({ cores }) => cores[role] != null))
    if (roles.length === 0) return
    const looks = server.slice(1).filter(({ at }, index) => at - server[index].at > 0.5)
    const cores = roles.map((role) => looks.map((look) => look.cores[role] ?? null))
    const names = roles.map((role) => report.roles[role])
    plot(parent, 'Cores in use', [looks.map(({ at }) => at), ...cores], names.map(line))
  }

  /** The round whose throughput is in the middle. */
  function middle(rounds, server) {
    const results = rounds.map((turns) => turns[server]).filter((turn) => turn && !turn.broken)
    return results.sort((a, b) => a.perSecond - b.perSecond)[results.length >> 1]
  }

  function measured(one) {
    add(root, 'h2', `${one.scenario}, ${one.load}`)
    figures(root, one)
    for (const index of (one.rounds[0] ?? []).keys()) {
      const result = middle(one.rounds, index)
      const broken = one.rounds.map((turns) => turns[index]).find((turn) => turn?.broken)
      if (report.servers.length > 1) add(root, 'h3', `${letter(index)}: ${nameOf(index)}`)
      if (broken) add(root, 'p', `broken: ${broken.broken}`, 'bad')
      if (result) resultOf(root, result)
    }
  }

  function warmup(parent, { warmup }) {
    if (warmup?.isSteady === false)
      add(parent, 'p', `Not steady after ${warmup.seconds} s of warm-up: these may be figures of a cold server.`, 'bad')
  }

  function resultOf(parent, result) {
    warmup(parent, result)
    latencies(parent, result)
    for (const { kind, count, example } of result.failures) add(parent, 'p', `${count} × ${kind}: ${example}`, 'bad')
    const plots = add(parent, 'div', '', 'plots')
    distribution(plots, Object.entries(result.curves))
    overTime(plots, result)
  }

  function overload({ server, maximum, run, goodputShare, worstGoodputShare, flood, latency, recoverySeconds }) {
    add(root, 'h2', `Overload of ${server} with ${run.scenario}`)
    const p99s = [latency.before, latency.flood, latency.after].map(({ p99 }) => `${shown(p99)} ms`)
    const rows = [
      ['maximum of a closed loop', `${shown(maximum.perSecond)}/s`],
      ['goodput in the flood', `${percent(goodputShare)} of it, ${percent(worstGoodputShare)} in the worst seconds`],
      [
        'of the flood',
        ['succeeded', 'refused', 'dropped', 'failed'].map((name) => `${flood[name]} ${name}`).join(', '),
      ],
      ['p99 before, in flood, after', p99s.join(', ')],
      ['recovery', recoverySeconds == null ? 'not within the run' : `${recoverySeconds} s after the flood`],
    ]
    table(root, ['', ''], rows)
    warmup(root, maximum)
    resultOf(root, run)
  }

  head()
  report.overload.forEach(overload)
  report.measurements.forEach(measured)
})()
