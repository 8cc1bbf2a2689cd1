/** Two instances on one database, for the tests of a `describe` that put a balancer in front of them. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before } from 'node:test'
import { type Responder, startResponder } from './acme-client.ts'
import { makeCertificate } from './proxies.ts'
import { startTestService, type TestService } from './service.ts'

export interface TwoInstances {
  /** The folder has a certificate of `makeCertificate`. */
  folder: string
  instances: TestService[]
  /** Both ask this one. */
  responder: Responder
  cleanups: (() => unknown)[]
}

/** @param configOf the second instance gets the port of the first one's responder */
export function twoInstances(configOf: (folder: string, http01Port?: number) => Record<string, unknown>): TwoInstances {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-two-'))
  const instances: TestService[] = []
  const cleanups: (() => unknown)[] = [() => rmSync(folder, { recursive: true })]
  // `before` adds the responder.
  const two = { folder, instances, cleanups } as unknown as TwoInstances
  before(async () => {
    makeCertificate(folder)
    const first = await startTestService({ config: configOf(folder) })
    cleanups.push(() => first.dispose())
    two.responder = await startResponder(first.http01Port)
    cleanups.push(() => two.responder.close())
    const second = await startTestService({ config: configOf(folder, first.http01Port), beside: first })
    cleanups.push(() => second.dispose())
    instances.push(first, second)
  })
  after(async () => {
    for (const instance of instances) await instance.dispose()
    for (const cleanup of cleanups.toReversed()) await cleanup()
  })
  return two
}
