/** `chancery audit verify`: whether the audit log of the administration is whole. */

import { parseHead, renderHead } from '../../domain/audit-verdict.ts'
import { optional } from '../../shared/command-line.ts'
import { type SharedCommand, shared } from '../operations/shared-command.ts'
import { tell } from '../table.ts'

function head(value: string): string {
  const noted = parseHead(value)
  if (noted) return renderHead(noted)
  throw new Error('takes a number, a colon and 64 hexadecimal digits, as a line audit_head of the log has them')
}

interface Verdict {
  whole: boolean
  entries: number
  head: string
  cut_sequence: number
  faults: readonly string[]
}

export const AUDIT: readonly SharedCommand[] = [
  shared({
    usage: 'audit verify',
    about: 'Check that no entry of the audit log was changed, removed or moved; 1 when one was',
    options: { head: optional('A head noted earlier, from a line audit_head of the log: finds a cut tail', head) },
    examples: ['audit verify', 'audit verify --head 812:9f86d0…'],
    async run(caller, { head, json }) {
      const query = head === undefined ? {} : { query: { head } }
      const verdict = (await caller.page('getAuditChain', query)).body as Verdict
      const { whole, entries, cut_sequence: cut, faults } = verdict
      if (!json) for (const fault of faults) console.error(fault)
      const state = whole ? 'the audit log is whole' : 'the audit log is NOT whole'
      const retention = cut === 0 ? '' : `; retention has cut it at ${cut}`
      tell(json, verdict, `${state}: ${entries} entries${retention}`, `head  ${verdict.head}`)
      return whole ? 0 : 1
    },
  }),
]
