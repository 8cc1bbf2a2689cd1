/** Makes everything operations need before the clock starts: directory, accounts and what a scenario reads. */

import { X509Certificate } from 'node:crypto'
import { type ChainChecker, chainChecker, type Download } from '../check/certificate.ts'
import { type Account, registerAccount } from '../client/account.ts'
import { AcmeClient } from '../client/acme.ts'
import { Connection, parseTarget, trusting } from '../client/connection.ts'
import { csrMaker, spkiHex } from '../client/csr.ts'
import { Failure } from '../client/failure.ts'
import { NoncePool } from '../client/nonces.ts'
import { keyMaker } from '../client/signer.ts'
import type { RunStats } from '../measure/stats.ts'
import type { Proof } from '../scenario/challenge.ts'
import { nameMaker } from '../scenario/names.ts'
import type { Context, Scenario } from '../scenario/scenario.ts'
import type { GeneratorJob } from './messages.ts'
import { accountFromLine } from './saved-accounts.ts'

export interface Prepared {
  clients: AcmeClient[]
  context: Context
  accounts: Account[]
  checker: ChainChecker
}

/** @throws Failure when the server refuses what every later operation would need. */
export async function prepare(
  job: GeneratorJob,
  stats: RunStats,
  collect: (download: Download) => void,
  publish: (proof: Proof) => Promise<void>,
): Promise<Prepared> {
  const clients = openClients(job, stats)
  const directory = await clients[0]!.readDirectory(job.directoryUrl)
  for (const client of clients) client.useDirectory(directory)

  const newKey = keyMaker(job.signing)
  const certificateKey = newKey()
  const accounts: Account[] = []
  const nextName = nameMaker(job.runId, job.domainSuffix)
  let turn = 0
  const context: Context = {
    directoryUrl: job.directoryUrl,
    directory,
    newKey,
    nextAccount: () => accounts[turn++ % accounts.length]!,
    ...accountLender(accounts),
    accountCount: job.accountCount,
    nextName: (account) => nextName(account.index),
    csrFor: csrMaker(certificateKey),
    challengeType: job.challengeType,
    poll: job.poll,
    renewalReads: job.renewalReads,
    crlReads: job.crlReads,
    storm: job.storm,
    dataDir: job.dataDir,
    publish,
    collect,
    async timed(step, work) {
      const startedAt = performance.now()
      const done = await work()
      stats.recordStep(step, performance.now() - startedAt)
      return done
    },
  }
  await makeAccounts(job, clients, context, accounts)
  const root = job.rootCertificate === undefined ? undefined : new X509Certificate(job.rootCertificate)
  return { clients, context, accounts, checker: chainChecker(spkiHex(certificateKey), root) }
}

function openClients(job: GeneratorJob, stats: RunStats): AcmeClient[] {
  const target = parseTarget(job.directoryUrl)
  const settings = { target, trust: trusting(job.caCertificates), insecure: job.insecure, timeoutMs: job.timeoutMs }
  const count = Math.max(job.clients, job.connections)
  // Twice the clients: each has at most one nonce under way and one coming back.
  const nonces = new NoncePool(2 * count)
  return Array.from({ length: count }, () => {
    const connection = new Connection(settings, stats)
    return new AcmeClient(connection, target, nonces, stats)
  })
}

/** Those that were saved first; then every client registers accounts until there are enough. */
async function makeAccounts(
  job: GeneratorJob,
  clients: AcmeClient[],
  { directory, newKey }: Context,
  accounts: Account[],
): Promise<void> {
  for (const line of job.savedAccounts) accounts.push(accountFromLine(line, job.firstAccount + accounts.length, newKey))
  if (accounts[0]) await requireAccount(clients[0]!, accounts[0])
  let begun = accounts.length
  const work = async (client: AcmeClient) => {
    while (begun < job.accounts) {
      const place = begun++
      accounts[place] = await registerAccount(client, directory, newKey, job.firstAccount + place)
    }
  }
  await Promise.all(clients.slice(0, job.clients).map(work))
}

/** Saved accounts are all of one server, or none is. @throws Error */
async function requireAccount(client: AcmeClient, account: Account): Promise<void> {
  try {
    await client.post('account', account, account.url, '')
  } catch (cause) {
    throw new Error(`the server does not know the saved accounts: ${(cause as Error).message}`, { cause })
  }
}

/** Divides the accounts among the clients. */
export async function forEachAccount(
  {
    clients,
    context,
    accounts,
    inClosedLoop,
  }: Pick<Prepared, 'clients' | 'context' | 'accounts'> & {
    inClosedLoop: number
  },
  act: Scenario['prepareAccount'],
): Promise<void> {
  if (!act) return
  let begun = 0
  const work = async (client: AcmeClient) => {
    for (let account = accounts[begun++]; account; account = accounts[begun++]) await act(client, context, account)
  }
  await Promise.all(clients.slice(0, inClosedLoop).map(work))
}

/** Lends accounts that nobody else has, the one given back first. */
function accountLender(accounts: readonly Account[]): Pick<Context, 'takeAccount' | 'giveBack'> {
  let free: Account[] | undefined
  let next = 0
  return {
    takeAccount() {
      free ??= [...accounts]
      const account = free[next]
      if (!account) throw new Failure('accounts-busy', 'more operations at once than --accounts')
      next++
      // Taken ones stand before `next`; they are dropped in lumps.
      if (next > accounts.length) {
        free.splice(0, next)
        next = 0
      }
      return account
    },
    giveBack: (account) => void free?.push(account),
  }
}
