/** TLS certificates that have expired. */

import { writeFileSync } from 'node:fs'
import type { Stand } from '../stand.ts'
import type { Begun, Kinds } from './kind.ts'

/** Connections that are open need no certificate any more. */
const END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'chancery'"

async function presentByDatabase({ databases }: Stand, expired: boolean): Promise<void> {
  databases.writeCertificate(expired)
  for (const { part } of databases.nodes) part.reload()
  await databases.ask(END_SESSIONS)
}

export const CERTIFICATE_KINDS: Kinds = {
  'expired-database-certificate': {
    about: 'the certificate of PostgreSQL has expired; sessions begin anew',
    lasts: [3, 15],
    async begin(stand): Promise<Begun> {
      await presentByDatabase(stand, true)
      return { target: 'PostgreSQL', end: () => presentByDatabase(stand, false) }
    },
  },
  'expired-instance-certificate': {
    about: 'the certificate of an instance has expired; the balancer refuses it',
    lasts: [3, 15],
    async begin({ instances }, chance): Promise<Begun> {
      const { part, key, certificateFile } = instances[chance.whole(2)]!
      // Files of one's own are read at the start.
      const present = async (certificate: string) => {
        writeFileSync(certificateFile, certificate)
        await part.stop()
        part.start()
      }
      await present(key.expired)
      return { target: part.name, end: () => present(key.certificate) }
    },
  },
}
