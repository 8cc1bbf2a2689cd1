/** Name servers of a shared service, which answer as the test file that runs says. */

import type { Script, ScriptedDns } from '../workers/scripted-dns.ts'
import { NXDOMAIN, startDns } from '../workers/scripted-dns.ts'

const nothing: Script = () => ({ rcode: NXDOMAIN })

/** The name servers of `dns.resolvers`, of the challenge methods, and of the zone `inside.test`. */
export type Names = Record<'general' | 'methods' | 'inside', ScriptedDns & { script: Script }>

let started: Promise<Names> | undefined

async function start(): Promise<Names> {
  const one = async () => {
    const place = { script: nothing } as Names['general']
    return Object.assign(place, await startDns((asked) => place.script(asked)))
  }
  return { general: await one(), methods: await one(), inside: await one() }
}

/** The same for all files of a process. A file that has ended leaves no answers behind. */
export async function scriptedNames(): Promise<Names> {
  started ??= start()
  const names = await started
  for (const server of Object.values(names)) {
    server.script = nothing
    server.asked.length = 0
  }
  return names
}

export async function closeNames(): Promise<void> {
  if (started) await Promise.all(Object.values(await started).map((server) => server.close()))
}
