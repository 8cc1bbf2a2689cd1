/** `chancery users unlock|unlock-address`, `terms accept`, `audit verify`, `crl rebuild` and `search`. */

import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Output } from '../../admin/client.ts'
import { SUMMARIES } from '../../admin/summaries.ts'
import { parseHead, renderHead } from '../../domain/audit-chain.ts'
import { crlName } from '../../domain/crl-scope.ts'
import { isGiven, optional, several, UsageError } from '../../shared/command-line.ts'
import { tell } from '../printing.ts'
import { CommandError, ofAccount, uuid } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { type AdminCommand, adminCommand } from './admin-command.ts'

/** End the locks of failed logins. */
const USER_COMMANDS: readonly AdminCommand[] = [
  adminCommand({
    usage: 'users unlock <username>',
    about: SUMMARIES.unlockUser,
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
    about: SUMMARIES.unlockAddress,
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
const TERMS_ACCEPT = adminCommand({
  usage: 'terms accept',
  about: SUMMARIES.acceptTerms,
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
const AUDIT_VERIFY = adminCommand({
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

/** A list of millions of entries takes a minute, and a build that is running ends first. */
const WAIT_MS = 300_000
const CRL_LOOK_MS = 250
/** Short lists are ready before this, so no message is needed. */
const NOTICE_AFTER_MS = 2_000

/** Asks the running service for new lists, and waits for them. */
const CRL_REBUILD = adminCommand({
  usage: 'crl rebuild',
  about: 'Have a new CRL built and wait until it is published (needs crl.enabled); --json prints a line for each list',
  async run(caller, { json }) {
    await caller.call('rebuildCrl', { body: { wait_seconds: 0 } })
    for (const { issuer, shard, shards, number, entries, bytes, this_update, next_update } of await newLists(caller)) {
      const crl = crlName(issuer, { shard, shards })
      if (json) console.log(JSON.stringify({ crl, number, entries, bytes, this_update, next_update }))
      else
        console.log(
          `CRL ${crl}: number ${number}, ${entries} entries, ${bytes} bytes\n  from ${this_update} to ${next_update}`,
        )
    }
    return 0
  },
})

async function newLists(caller: AdminCaller): Promise<Output<'listCrls'>['lists']> {
  const startedAt = performance.now()
  const say = onceEach()
  for (;;) {
    const { rebuilding, error, lists } = await caller.call('listCrls', {})
    if (!rebuilding) return lists
    const waitedMs = performance.now() - startedAt
    if (waitedMs > WAIT_MS)
      throw new CommandError(`the CRL was not rebuilt in time: ${error ?? 'see the log of the service'}`)
    if (error !== null) say(`no CRL yet: ${error}; the service tries again`)
    if (error !== null || waitedMs > NOTICE_AFTER_MS)
      say(`waiting up to ${WAIT_MS / 60_000} minutes for the new CRL; the request stays when this command ends`)
    await sleep(CRL_LOOK_MS)
  }
}

/** Prints messages for the operator on standard error, each once. */
function onceEach(): (message: string) => void {
  const said = new Set<string>()
  return (message) => {
    if (!said.has(message)) process.stderr.write(`${message}\n`)
    said.add(message)
  }
}

/** Looks for one text in everything that administrators list. */
const SEARCH = adminCommand({
  usage: 'search <text>',
  about: [
    SUMMARIES.search,
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

export const ADMINISTRATION_COMMANDS = [SEARCH, CRL_REBUILD, TERMS_ACCEPT, ...USER_COMMANDS, AUDIT_VERIFY]
