/** Makes everything operations need before the clock starts: directory, accounts and what a scenario reads. */

import { X509Certificate } from 'node:crypto'
import { type ChainChecker, chainChecker, type Download } from '../check/certificate.ts'
import { type Account, registerAccount } from '../client/account.ts'
import { AcmeClient, type ClientSettings } from '../client/acme.ts'
import { Failure } from '../client/failure.ts'
import { connectionMaker } from '../client/http.ts'
import { csrMaker, newKey } from '../client/signer.ts'
import type { RunStats } from '../measure/stats.ts'
import { type Context, nameMaker, type Scenario, thumbprintName } from '../scenario/scenario.ts'
import { scenarioNamed } from '../scenario/table.ts'
import type { GeneratorJob } from './messages.ts'

export interface Prepared {
  clients: AcmeClient[]
  /** Flows of the closed loop among them. */
  inClosedLoop: number
  scenario: Scenario
  context: Context
  checkChain: ChainChecker
}

/** @throws Failure when the server refuses what every later operation would need */
export async function prepare(
  job: GeneratorJob,
  stats: RunStats,
  collect: (download: Download) => void,
  publish: Context['publish'],
): Promise<Prepared> {
  const { target } = job
  const settings: ClientSettings = { origin: new URL(target.directoryUrl).origin, nonces: [], stats, newNonceUrl: '' }
  const connect = connectionMaker(target)
  const count = Math.max(job.clients, job.connections)
  const clients = Array.from({ length: count }, () => new AcmeClient(connect(), settings))
  const directory = await clients[0]!.readDirectory(target.directoryUrl)

  const certificateKey = newKey()
  const accounts: Account[] = []
  const nextName = nameMaker(job.runId, target.domainSuffix)
  let turn = 0
  const context: Context = {
    target,
    directory,
    publish,
    collect,
    nextAccount: () => accounts[turn++ % accounts.length]!,
    takeAccount() {
      for (let tries = 0; tries < accounts.length; tries++) {
        const account = context.nextAccount()
        if (!account.isTaken) return Object.assign(account, { isTaken: true })
      }
      throw new Failure('accounts-busy', 'more operations at once than --accounts')
    },
    nextName: (account) => nextName(account.index),
    csrFor: csrMaker(certificateKey),
  }
  const scenario = scenarioNamed(job.scenario)
  let begun = 0
  const work = async (client: AcmeClient) => {
    while (begun < job.accounts) {
      const place = begun++
      const account = await registerAccount(client, directory, job.firstAccount + place, target.contact)
      accounts[place] = account
      if (scenario.answersChallenges) await publish({ name: thumbprintName(account.index), text: account.thumbprint })
      await scenario.prepareAccount?.(client, context, account)
    }
  }
  await Promise.all(clients.slice(0, job.clients).map(work))
  const root = target.rootCertificate === undefined ? undefined : new X509Certificate(target.rootCertificate)
  const checkChain = chainChecker(certificateKey.spki, root)
  return { clients, inClosedLoop: job.clients, scenario, context, checkChain }
}
