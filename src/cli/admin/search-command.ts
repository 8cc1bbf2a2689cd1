/** `chancery search`: one text over everything that administrators list. */

import type { Output } from '../../admin/client.ts'
import { tell } from '../printing.ts'
import { adminCommand } from './admin-command.ts'

export const SEARCH = adminCommand({
  usage: 'search <text>',
  about: [
    'Search names, certificates, accounts, orders, credentials, users and settings',
    'The text is a name or a part, the beginning of a serial number or fingerprint, a kid, contact, label, tag or id.',
  ],
  options: {},
  examples: ['search www.example.com', 'search 0a:1b:2c'],
  async run(caller, { json }, [q = '']) {
    const found = await caller.call('search', { query: { q } })
    tell(json, found, textOf(found))
    return found.groups.length > 0 ? 0 : 1
  },
})

function textOf({ groups, not_searched }: Output<'search'>): string {
  const found = groups.flatMap(({ kind, hits, more }) => [
    `${kind}:`,
    ...hits.map(({ id, title, detail }) => `  ${title}  ${detail}${id === title ? '' : `  ${id}`}`),
    ...(more === null ? [] : ['  and more']),
  ])
  return [...(found.length === 0 ? ['nothing was found'] : found), ...not_searched.map(({ reason }) => reason)].join(
    '\n',
  )
}
