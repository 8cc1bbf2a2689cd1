/** Makes everything operations need before the clock starts: directory, accounts and what a scenario reads. */

import { X509Certificate } from 'node:crypto'
import { type ChainChecker, chainChecker, type Download } from '../check/certificate.ts'
import { type Account, registerAccount } from '../client/account.ts'
import { AcmeClient } from '../client/acme.ts'
import { Connection, parseTarget } from '../client/connection.ts'
import { csrMaker, spkiHex } from '../client/csr.ts'
import { NoncePool } from '../client/nonces.ts'
import { keyMaker } from '../client/signer.ts'
import type { RunStats } from '../measure/stats.ts'
import type { Proof } from '../scenario/challenge.ts'
import { nameMaker } from '../scenario/names.ts'
import type { Context } from '../scenario/scenario.ts'
import { scenarioNamed } from '../scenario/table.ts'
import type { GeneratorJob } from './messages.ts'

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
    nextName: (account) => nextName(account.index),
    csrFor: csrMaker(certificateKey),
    challengeType: job.challengeType,
    poll: job.poll,
    publish,
    collect,
  }
  await makeAccounts(job, clients, context, accounts)
  const root = job.rootCertificate === undefined ? undefined : new X509Certificate(job.rootCertificate)
  return { clients, context, accounts, checker: chainChecker(spkiHex(certificateKey), root) }
}

function openClients(job: GeneratorJob, stats: RunStats): AcmeClient[] {
  const target = parseTarget(job.directoryUrl)
  const { caCertificates, insecure, timeoutMs } = job
  const count = Math.max(job.clients, job.connections)
  // Twice the clients: each has at most one nonce under way and one coming back.
  const nonces = new NoncePool(2 * count)
  return Array.from({ length: count }, () => {
    const connection = new Connection({ target, caCertificates, insecure, timeoutMs }, stats)
    return new AcmeClient(connection, target, nonces, stats)
  })
}

/** Every client registers accounts until there are enough. */
async function makeAccounts(
  job: GeneratorJob,
  clients: AcmeClient[],
  context: Context,
  accounts: Account[],
): Promise<void> {
  const { prepareAccount } = scenarioNamed(job.scenario)
  let begun = 0
  const work = async (client: AcmeClient) => {
    while (begun < job.accounts) {
      const place = begun++
      const account = await registerAccount(client, context.directory, context.newKey, job.firstAccount + place)
      accounts[place] = account
      await prepareAccount?.(client, context, account)
    }
  }
  await Promise.all(clients.slice(0, job.clients).map(work))
}
