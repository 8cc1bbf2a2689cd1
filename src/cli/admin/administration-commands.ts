/** `chancery users unlock|unlock-address`, `terms accept` and `audit verify`. */

import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Output } from '../../admin/client.ts'
import { parseHead, renderHead } from '../../domain/audit-chain.ts'
import { isGiven, optional, several, UsageError } from '../../shared/command-line.ts'
import { tell } from '../printing.ts'
import { CommandError, uuid } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { type AdminCommand, adminCommand } from './admin-command.ts'
import { ofAccount } from './grant-targets.ts'

/** End the locks of failed logins. */
export const USER_COMMANDS: readonly AdminCommand[] = [
  adminCommand({
    usage: 'users unlock <username>',
    about: 'Let a user log in again whose name is locked after failed logins',
    examples: ['users unlock bob'],
    async run(caller, { json }, [name = '']) {
      const user_id = await caller.idOf('user_id', name)
      const body = await caller.call('unlockUser', { params: { user_id } })
      tell(json, body, body.unlocked ? `${name} may log in again` : `${name} has no failed logins`)
      return 0
    },
  }),
  adminCommand({
    usage: 'users unlock-address <address>',
    about: 'Let users log in again from an address that is locked after failed logins',
    examples: ['users unlock-address 192.0.2.7'],
    async run(caller, { json }, [address = '']) {
      if (isIP(address) === 0) throw new UsageError(`${JSON.stringify(address)} is no IP address`)
      const body = await caller.call('unlockAddress', { body: { address } })
      tell(json, body, body.unlocked ? `users may log in again from ${address}` : `${address} has no failed logins`)
      return 0
    },
  }),
]

/** Agreements to the terms of service that were given outside the protocol. */
export const TERMS_ACCEPT = adminCommand({
  usage: 'terms accept',
  about: 'Record that an account, or with --all every one, agrees to tos.version',
  options: {
    account: optional('Account id, the last part of the account URL', uuid),
    all: isGiven('Every account'),
  },
  examples: ['terms accept --account 01938c4e-…', 'terms accept --all'],
  async run(caller, { account, all, json }) {
    if ((account === undefined) !== all) throw new UsageError('name either --account or --all')
    const asked = caller.call('acceptTerms', { body: account === undefined ? { all: true } : { account_id: account } })
    const body = await (account === undefined ? asked : ofAccount(account, asked))
    const { accounts, version } = body
    const sentence = `${accounts} accounts have now agreed to ${version}`
    tell(json, body, account === undefined ? sentence : `${account} has agreed to ${version}`)
    return 0
  },
})

function head(value: string): string {
  const noted = parseHead(value)
  if (noted) return renderHead(noted)
  throw new Error('takes a number, a colon and 64 hexadecimal digits, as a line audit_head of the log has them')
}

type Verification = Output<'getAuditVerification'>

const LOOK_MS = 200

/** @throws CommandError when the log could not be read to its end */
async function verification(caller: AdminCaller, heads: readonly string[]): Promise<Verification> {
  let job: Verification = await caller.call('beginAuditVerification', { body: { heads: [...heads] } })
  // A terminal shows the progress on one line.
  const show = (line: string) => process.stderr.isTTY && process.stderr.write(`\r\x1b[K${line}`)
  while (job.status === 'running') {
    show(`${job.checked} of ${job.total} entries`)
    await sleep(LOOK_MS)
    job = await caller.call('getAuditVerification', { params: { verification_id: job.id } })
  }
  show('')
  if (job.status === 'failed') throw new CommandError(`the audit log could not be checked: ${job.failure}`)
  return job
}

/** Whether the audit log of the administration is whole. */
export const AUDIT_VERIFY = adminCommand({
  usage: 'audit verify',
  about: 'Check that no entry of the audit log was changed, removed or moved; 1 when one was',
  options: {
    head: several('A head noted earlier, from a line audit_head of the log: finds a cut tail; repeatable', head),
  },
  examples: ['audit verify', 'audit verify --head 812:9f86d0… --head 1044:03c2aa…'],
  async run(caller, { head, json }) {
    const verdict = await verification(caller, head)
    const { whole, entries, cut_sequence: cut, faults } = verdict
    if (!json) for (const fault of faults) console.error(fault)
    const state = whole ? 'the audit log is whole' : 'the audit log is NOT whole'
    const retention = cut === 0 ? '' : `; retention has cut it at ${cut}`
    const last = verdict.head?.split(':')[0] ?? 0
    const unseen = `not seen  entries after ${last} that this database has lost: a line audit_head of the service's log finds them, by --head`
    const { written_back: back } = verdict
    const lost = back ? [`of them ${back.entries} were lost by a fail-over and are written back:`, ...back.spans] : []
    tell(json, verdict, `${state}: ${entries} entries${retention}`, ...lost, `head  ${verdict.head}`, unseen)
    return whole ? 0 : 1
  },
})
