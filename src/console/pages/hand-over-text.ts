/** The hand-over sheet of a credential as one text, for a file or the clipboard. Pure. */

import type { ClientCommands } from './client-commands.ts'
import { ROOT_FILE, saveRoots } from './client-commands.ts'

export interface HandOver {
  title: string
  directoryUrl: string
  kid: string
  /** Undefined once it has been closed. */
  hmacKey: string | undefined
  roots: readonly { subject: string; fingerprint: string; pem: string }[]
  rootsUrl: string | null
  commands: readonly ClientCommands[]
}

export function handOverText({ title, directoryUrl, kid, hmacKey, roots, rootsUrl, commands }: HandOver): string {
  return [
    `${title}\n${'='.repeat(title.length)}`,
    [
      `Directory URL:   ${directoryUrl}`,
      `Key identifier:  ${kid}`,
      `HMAC key:        ${hmacKey ?? 'not in this text; it was shown once'}`,
    ].join('\n'),
    roots.length > 0
      ? `1. Save the root certificate of the CA as ${ROOT_FILE}\n\n${saveRoots(pemOf(roots))}`
      : `1. Save the root certificate of the CA as ${ROOT_FILE}. Ask the operator for it.`,
    ...roots.map(({ subject, fingerprint }) => `${subject}\nSHA-256 ${fingerprint}`),
    ...(rootsUrl === null ? [] : [`It is also at ${rootsUrl}\n${CHECK_ROOT}`]),
    '2. Register the client, with its first certificate',
    ...commands.map(({ client, place, text }) => `--- ${client} (${place})\n\n${text.trimEnd()}`),
  ]
    .join('\n\n')
    .concat('\n')
}

export const pemOf = (roots: HandOver['roots']): string => roots.map(({ pem }) => pem).join('')

/** Prints the fingerprint of what was fetched, for the comparison. */
export const CHECK_ROOT = `openssl x509 -in ${ROOT_FILE} -noout -fingerprint -sha256`
