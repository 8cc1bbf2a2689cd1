/** Tells a reader what is known of a name. */

import type { Output } from '../../admin/client.ts'

export function nameText({ name, state, entries, next, not_known }: Output<'getNameHistory'>): string {
  return [
    ...stateLines(name, state),
    '',
    ...(entries.length === 0 ? ['nothing is known of it'] : entries.map(entryLine)),
    ...(next === null ? [] : [`more: --before ${next}`]),
    '',
    ...not_known,
  ].join('\n')
}

type History = Output<'getNameHistory'>

function stateLines(name: string, { certificate, account_id, account_name, last_failure }: History['state']): string[] {
  return [
    certificate === null
      ? `${name} has no valid certificate`
      : `${name} is certified until ${certificate.not_after}, serial number ${certificate.serial_number}; renewal from ${certificate.window_start}`,
    ...(account_id === null ? [] : [`account ${account_name ?? ''}  ${account_id}`]),
    ...(last_failure === null
      ? []
      : [
          `last failure ${last_failure.at}${last_failure.resolved ? ', with a certificate since' : ''}: ${last_failure.title}. ${last_failure.detail}`,
          last_failure.advice,
          ...(last_failure.command === null ? [] : [`  ${last_failure.command}`]),
        ]),
  ]
}

function entryLine({ at, title, detail, names, order_id, serial_number }: History['entries'][number]): string {
  const id = serial_number ?? order_id
  return [at, title, ...(detail === '' ? [] : [detail]), names.join(', '), ...(id === null ? [] : [id])].join('  ')
}
