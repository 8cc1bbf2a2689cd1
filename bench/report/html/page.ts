/** A report as one HTML file that needs nothing else: no script, no font, no image from anywhere. */

import type { BenchDocument } from '../document.ts'
import { letterOf } from '../summary.ts'
import { abuseSection } from './abuse.ts'
import { shortNumber } from './axes.ts'
import { element, type Markup, raw, table, text } from './markup.ts'
import { measuredSection } from './measured.ts'
import { overloadSection } from './overload.ts'
import { overviewSection } from './overview.ts'
import { microSection, signerSection } from './parts.ts'
import { profileSection } from './profile.ts'
import { scaleSection } from './scale.ts'
import { STYLE } from './style.ts'
import { sweepSections } from './sweep.ts'

const GIBIBYTE = 1024 ** 3

export function renderHtml(document: BenchDocument): string {
  const { servers, measurements, overload, abuse, scale, profiles, micro, signer } = document
  const title = titleOf(document)
  const body = element(
    'main',
    {},
    element('h1', {}, text(title)),
    element('p', { class: 'lead' }, text(whenOf(document))),
    facts(document),
    servers.length > 1 ? serverTable(document) : raw(''),
    overviewSection(document),
    ...sweepSections(servers, measurements),
    ...overload.map(overloadSection),
    abuse.length > 0 ? abuseSection(abuse) : raw(''),
    ...measurements.map((measured) => measuredSection(servers, measured)),
    scale.length > 0 ? scaleSection(scale, document.machine.processors) : raw(''),
    ...profiles.map(profileSection),
    micro ? microSection(micro) : raw(''),
    signer.length > 0 ? signerSection(signer) : raw(''),
    servers.length > 0 ? explanations() : raw(''),
  )
  const head = [
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    element('title', {}, text(title)),
    `<style>${STYLE}</style>`,
  ]
  return `<!doctype html>\n<html lang="en">\n<head>${head.join('\n')}</head>\n<body>${body}</body>\n</html>\n`
}

const EXPLANATIONS = [
  'Per second counts operations that ended within the measured time. Latency is that of whole operations and of their requests; in an open loop it counts from when an operation was due.',
  'CPU is user and system time of all processes of a server, divided by the operations that succeeded. The crypto floor is what the signatures of one operation cost with Node’s own crypto, measured on the server’s processors under the same load; quote figures in floors where machines or hours differ.',
  'Of several rounds the median stands first and the range behind it; ratios are taken within a round. Plots show the round whose throughput is in the middle.',
  'Shared memory, such as PostgreSQL’s buffers, counts once.',
]

function explanations(): Markup {
  return element(
    'section',
    {},
    element('h2', {}, text('How to read this')),
    ...EXPLANATIONS.map((sentence) => element('p', { class: 'note' }, text(sentence))),
  )
}

function titleOf({ servers, measurements, overload, abuse, scale, profiles, micro, signer }: BenchDocument): string {
  const scenarios = [...new Set(measurements.map(({ scenario }) => scenario))]
  const parts = [
    ...(scenarios.length > 4 ? [`${scenarios.length} scenarios`] : scenarios),
    ...(overload.length > 0 ? ['overload'] : []),
    ...(abuse.length > 0 ? ['abuse'] : []),
    ...(scale.length > 0 ? ['scale'] : []),
    ...profiles.map(({ scenario }) => `profile of ${scenario}`),
    ...(micro ? ['parts of a request'] : []),
    ...(signer.length > 0 ? ['the signer alone'] : []),
  ]
  const names = servers.map(({ name }) => name)
  return [parts.join(', '), ...(names.length > 0 ? [names.join(', ')] : [])].join(': ')
}

function facts(document: BenchDocument): Markup {
  const { command, commit, machine, interruptedBy, servers } = document
  const commits = servers.flatMap((server) => (server.commit === undefined ? [] : [server.commit.slice(0, 12)]))
  const rows: [string, Markup][] = [
    ['Command', element('code', {}, text(`npm run bench -- ${command.map(quoted).join(' ')}`))],
    ...(servers.length === 0
      ? []
      : [
          ['Server commit', text(commits.length > 0 ? commits.join(', ') : 'of the server: not known')] satisfies [
            string,
            Markup,
          ],
        ]),
    ['Bench commit', text(commit ?? 'not known')],
    [
      'Machine',
      text(`${machine.processors} × ${machine.processor}, ${shortNumber(machine.memoryBytes / GIBIBYTE)} GiB`),
    ],
    ['System', text(`${machine.system}, Node ${machine.node}`)],
    ['Load average', text(`${shortNumber(machine.loadAverage)} when it began`)],
    ...(interruptedBy === undefined
      ? []
      : [['Interrupted', text(`by ${interruptedBy}: these are the figures until then`)] satisfies [string, Markup]]),
  ]
  return element(
    'dl',
    {},
    rows.flatMap(([name, value]) => [element('dt', {}, text(name)), element('dd', {}, value)]),
  )
}

function whenOf({ startedAt, endedAt }: BenchDocument): string {
  const seconds = (Date.parse(endedAt) - Date.parse(startedAt)) / 1000
  return `${startedAt.slice(0, 16).replace('T', ' ')} UTC; it took ${durationWords(seconds)}`
}

function durationWords(seconds: number): string {
  const whole = Math.round(seconds)
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`
}

function serverTable({ servers }: BenchDocument): Markup {
  const rows = servers.map((server, index) => ({ ...server, letter: letterOf(index) }))
  return table(
    [
      { title: '', kind: 'text', cell: ({ letter }) => text(letter) },
      { title: 'server', kind: 'text', cell: ({ name }) => text(name) },
      ...(servers.some(({ note }) => note !== '')
        ? [{ title: 'note', kind: 'text' as const, cell: ({ note }: (typeof rows)[number]) => text(note) }]
        : []),
    ],
    rows,
  )
}

function quoted(word: string): string {
  return /^[\w./:=%,@+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
