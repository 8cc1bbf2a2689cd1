/** The service of a suite, and what its tests need beside it: made before the first test, closed after the last. */

import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import pg from 'pg'
import { type AcmeClient, closeConnections, type Responder, registeredClient, startResponder } from './acme-client.ts'
import { startTestService, type TestService, type TestServiceOptions } from './service.ts'
import { type SharedServiceName, sharedService } from './shared-service.ts'

export interface AcmeScene {
  service: TestService
  /** For http-01. */
  responder: Responder
  /** Registered. */
  client: AcmeClient
  database: pg.Client
}

/**
 * What a suite takes of it is made, in this order, and nothing else.
 * @param of a shared service, by its name, or one of its own, which ends with the suite
 */
export function acmeScene(of: SharedServiceName | TestServiceOptions | (() => Promise<TestService>)): AcmeScene {
  const start = typeof of === 'function' ? of : () => startTestService(of as TestServiceOptions)
  const atEnd = lastFirst()
  const service = typeof of === 'string' ? made(() => sharedService(of)) : made(start, (own) => own.dispose(), atEnd)
  return besides(service, atEnd)
}

/** A suite ends its parts in the opposite order of their making, so a database goes after all that are connected to it. */
function lastFirst(): AtEnd {
  const ends: Parameters<AtEnd>[0][] = []
  after(async () => {
    closeConnections()
    for (const end of ends.toReversed()) await end()
  })
  return (end) => void ends.push(end)
}

type AtEnd = (end: () => Promise<void>) => void

/** A service of a suite that is killed or stopped, and starts again on what it left behind. */
export function restartedScene(optionsOf: () => TestServiceOptions) {
  let first: TestService | undefined
  let now: TestService | undefined
  before(async () => {
    now = first = await startTestService(optionsOf())
  })
  const atEnd = lastFirst()
  atEnd(async () => {
    await now?.dispose()
    if (now !== first) await first?.dispose()
  })
  const service = standFor(() => now)
  return Object.assign(besides(service, atEnd), {
    /** Its first process. */
    first: standFor(() => first),
    async again(more: TestServiceOptions = {}): Promise<void> {
      now = await startTestService({ ...optionsOf(), ...more, continueFrom: first as TestService })
    },
  })
}

function besides(service: TestService, atEnd: AtEnd): AcmeScene {
  return {
    service,
    get responder() {
      return made(
        () => startResponder(service.http01Port),
        (responder) => responder.close(),
        atEnd,
      )
    },
    get client() {
      return made(() => registeredClient(service.directoryUrl))
    },
    get database() {
      return made(
        async () => {
          const database = new pg.Client(service.database.connection)
          await database.connect()
          return database
        },
        (database) => database.end(),
        atEnd,
      )
    },
  }
}

/** @returns what stands for it: a suite may name it before it is there, and its tests use it */
export function made<T extends object>(
  make: () => Promise<T>,
  end?: (it: T) => Promise<unknown>,
  atEnd: AtEnd = after,
): T {
  let it: T | undefined
  before(async () => {
    it = await make()
  })
  atEnd(async () => {
    if (it) await end?.(it)
  })
  return standFor(() => it)
}

function standFor<T extends object>(look: () => T | undefined): T {
  const real = (): T => look() ?? assert.fail('it is made before the first test')
  return new Proxy({} as T, {
    get: (_, name) => {
      const value = Reflect.get(real(), name)
      return typeof value === 'function' ? value.bind(real()) : value
    },
    set: (_, name, value) => Reflect.set(real(), name, value),
  })
}
