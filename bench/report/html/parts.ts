/** The parts of a report about what was measured one by one: the parts of a request, and the signer alone. */

import type { MicroFigures } from '../../micro/micro.ts'
import { floorLine, microGrid } from '../../micro/text.ts'
import { nameOfKey, type SignerRow, signerGrid } from '../../signer/text.ts'
import { stackedBars } from './bars.ts'
import { element, gridTable, type Markup, text } from './markup.ts'

export function microSection(micro: MicroFigures): Markup {
  const rows = micro.results.map(({ name, batch, own, other }) => ({
    name: batch === undefined ? name : `${name}, ${batch} at once`,
    parts: [
      { name: 'here', color: 0, value: own },
      ...(other === undefined ? [] : [{ name: 'asked', color: 1, value: other }]),
    ],
  }))
  return element(
    'section',
    {},
    element('h2', {}, text('The parts one by one')),
    element('p', { class: 'lead' }, text('CPU of one operation: of the bench, and of the process that it asks.')),
    element('div', { class: 'plots' }, stackedBars('CPU of one operation, µs', 'µs', rows)),
    gridTable(microGrid(micro)),
    element('p', { class: 'note' }, text(floorLine(micro.floor))),
  )
}

export function signerSection(rows: readonly SignerRow[]): Markup {
  const bars = (name: string, color: number, read: (row: SignerRow) => number) =>
    rows.map((row) => ({ name: nameOfKey(row), parts: [{ name, color, value: read(row) }] }))
  const note = 'main is the JavaScript thread of the signer, others are its other threads, both in percent of one core.'
  return element(
    'section',
    {},
    element('h2', {}, text('The signer alone')),
    element('div', { class: 'plots' }, [
      stackedBars(
        'Signatures per second',
        '',
        bars('per second', 0, ({ perSecond }) => perSecond),
      ),
      stackedBars(
        'CPU of one signature, µs',
        'µs',
        bars('signer', 1, ({ signerMicros }) => signerMicros),
      ),
    ]),
    gridTable(signerGrid(rows)),
    element('p', { class: 'note' }, text(note)),
  )
}
