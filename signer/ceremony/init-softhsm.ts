/**
 * `chancery-signer init-softhsm`: makes a SoftHSM token for development, in one disposable folder.
 */

import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { loadLibrary } from '../keys/pkcs11/library.ts'
import { writeNewFile } from './new-key.ts'

interface SoftHsmFiles {
  library: string
  /** SOFTHSM2_CONF must name this file in every process that uses the token. */
  configuration: string
  label: string
  pinFile: string
  soPinFile: string
}

/** Install paths of Debian, Fedora and others. */
const LIBRARIES = [
  '/usr/lib/softhsm/libsofthsm2.so',
  '/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so',
  '/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so',
  '/usr/lib64/softhsm/libsofthsm2.so',
  '/usr/lib64/pkcs11/libsofthsm2.so',
  '/usr/local/lib/softhsm/libsofthsm2.so',
]

/** SoftHSM takes 4 to 255 characters. */
const PIN_BYTES = 8

/**
 * Makes folder, configuration, PINs (random, in files of mode 600) and the token.
 * @param library undefined: one of LIBRARIES
 * @throws Error in one sentence, also when the folder exists
 */
export async function initSoftHsm(folder: string, label: string, library: string | undefined): Promise<SoftHsmFiles> {
  const found = library ?? LIBRARIES.find((file) => existsSync(file))
  if (found === undefined)
    throw new Error('SoftHSM was not found; install it (Debian: softhsm2) or name it with --library')
  const whole = path.resolve(folder)
  if (existsSync(whole)) throw new Error(`${whole}: exists already`)
  mkdirSync(path.join(whole, 'tokens'), { recursive: true, mode: 0o700 })
  const at = (name: string) => path.join(whole, name)
  const files = { configuration: at('softhsm2.conf'), pinFile: at('pin'), soPinFile: at('so-pin') }
  const lines = [`directories.tokendir = ${at('tokens')}`, 'objectstore.backend = file', 'log.level = ERROR']
  writeNewFile(files.configuration, `${lines.join('\n')}\n`, 0o600)
  const pin = randomBytes(PIN_BYTES).toString('hex')
  const soPin = randomBytes(PIN_BYTES).toString('hex')
  writeNewFile(files.soPinFile, `${soPin}\n`, 0o600)

  // SoftHSM reads the variable when its library is loaded.
  process.env['SOFTHSM2_CONF'] = files.configuration
  const softHsm = await loadLibrary(found)
  softHsm.initializeToken(label, soPin, pin)
  await softHsm.close(0)
  // The PIN is written last: setup takes its file as the sign of a whole token.
  writeNewFile(files.pinFile, `${pin}\n`, 0o600)
  return { library: found, label, ...files }
}

/** Tells an operator how to use the token. */
export function describeSoftHsm({ library, configuration, label, pinFile }: SoftHsmFiles): string[] {
  return [
    `Token ${label} is ready. Every process that uses it needs this variable:`,
    '',
    `  export SOFTHSM2_CONF=${configuration}`,
    '',
    'Make a key in it, for example with a self-signed certificate to try things out:',
    '',
    `  chancery-signer keygen --library ${library} --token ${label} --pin-file ${pinFile} \\`,
    '    --label issuing --subject "CN=Example Development CA" --root-days 365 --out ca',
    '',
    'Then the issuer in the configuration of chancery-signer says:',
    '',
    '    certificate: ca/root.pem',
    '    key:',
    '      pkcs11:',
    `        library: ${library}`,
    `        token: ${label}`,
    `        pin_file: ${pinFile}`,
    '        label: issuing',
    '',
    'or, where the service starts its signer itself, its configuration:',
    '',
    '  ca:',
    '    backend: hsm',
    '    hsm:',
    `      pkcs11_library: ${library}`,
    `      token_label: ${label}`,
    `      pin: \${HSM_PIN} # from the environment of the service`,
    '      key_label: issuing',
    '      issuer_cert_path: ca/root.pem',
  ]
}
