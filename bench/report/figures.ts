/** The figures in README.md and docs/benchmarks.md, from docs/benchmarks.json, which `bench --figures` writes. Pure. */

import type { BenchDocument } from './document.ts'
import { letterOf } from './summary.ts'
import { besideOther, cellsOf, EXPLAINED, type RowName } from './table.ts'

export type Figures = Pick<BenchDocument, 'command' | 'startedAt' | 'commit' | 'release' | 'machine' | 'servers'> & {
  table: NonNullable<BenchDocument['table']>
}

/** For docs/benchmarks.md. */
export function renderFigures({ command, startedAt, commit, release, machine, servers, table }: Figures): string {
  const { processors, processor, memoryBytes, system, node } = machine
  const clients = table.rows[0]?.loads.map((load) => load.clients) ?? []
  const named = servers.map(({ name }, index) => `${letterOf(index)}: ${name}, ${clients[index]} clients`)
  const header = ['', ...named, ...servers.slice(1).map((_, index) => `A/${letterOf(index + 1)}`)]
  const lines = [header, header.map(() => '---'), ...cellsOf(table)].map((cells) => `| ${cells.join(' | ')} |`)
  return [
    `Version ${release}, commit \`${commit}\`, ${startedAt.slice(0, 10)}, on ${processors} × ${processor} with ` +
      `${(memoryBytes / 1024 ** 3).toFixed(0)} GiB, ${system}, Node.js ${node}. Rounds: ${table.rounds},`,
    `by \`npm run bench -- ${command.join(' ')}\`.`,
    '',
    ...EXPLAINED,
    '',
    ...lines,
  ].join('\n')
}

const IN_SENTENCE: readonly RowName[] = [
  'certificate-warm',
  'certificate-http-01-cold',
  'account-warm',
  'order-warm',
  'read-warm',
]

/** For README.md, as an item of its list. @throws Error for a table without Pebble */
export function renderSentence({ commit, release, machine, servers, table }: Figures): string {
  const pebble = servers.findIndex(({ name }) => name.startsWith('Pebble'))
  const times = (name: RowName) => {
    const figure = table.rows.find((row) => row.name === name)?.figures.serverMicros
    const ratio = figure && besideOther(figure, pebble)
    if (!ratio) throw new Error(`docs/benchmarks.json has no ${name} beside Pebble`)
    return `${ratio.median.toFixed(2)} times`
  }
  const [certificate, cold, account, order, read] = IN_SENTENCE.map(times)
  return `  **Its cost is measured** beside Pebble, which keeps everything in memory: a certificate takes ${certificate} the CPU
  (with http-01 just after a start ${cold}), an account ${account}, an order ${order}, a signed read ${read}.
  Version ${release}, commit \`${commit}\`, ${machine.processor} ([benchmarks.md](docs/benchmarks.md#figures)).`
}
