/** `chancery search`: one text over everything that administrators list. */

import type { Output } from '../../admin/client.ts'
import { tell } from '../printing.ts'
import { adminCommand } from './admin-command.ts'

export const SEARCH = adminCommand({
  usage: 'search <text>',
  about: [
    'Search names, certificates, accounts, orders, credentials, users and settings',
    'The text is a name or a part, the beginning of a serial number or fingerprint, a kid, contact, label, tag or id.',
    'The exit code is 1 where nothing was found, or where not everything could be searched in time.',
  ],
  options: {},
  examples: ['search www.example.com', 'search 0a:1b:2c'],
  async run(caller, { json }, [q = '']) {
    const found = await caller.call('search', { query: { q } })
    tell(json, found, textOf(found))
    return found.groups.length > 0 && notLookedAt(found).length === 0 ? 0 : 1
  },
})

type Found = Output<'search'>

const notLookedAt = ({ not_searched }: Found) => not_searched.filter(({ searched }) => searched === 'not_at_all')

function textOf(result: Found): string {
  const found = result.groups.flatMap(({ kind, hits, more }) => [
    `${kind}:`,
    ...hits.map(({ id, title, detail }) => `  ${title}  ${detail}${id === title ? '' : `  ${id}`}`),
    ...(more === null ? [] : ['  and more']),
  ])
  const missing = notLookedAt(result)
  const nothing = missing.length > 0 ? 'nothing was found in what was searched' : 'nothing was found'
  return [
    ...(found.length === 0 ? [nothing] : found),
    ...(missing.length === 0 ? [] : [`not searched: ${missing.map(({ kind }) => kind).join(', ')}; search again`]),
    ...result.not_searched.map(({ kind, reason }) => `${kind}: ${reason}`),
  ].join('\n')
}
