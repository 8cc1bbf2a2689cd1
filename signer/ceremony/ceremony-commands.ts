/** The commands of `chancery-signer` that make keys and certificates of CAs, and a SoftHSM token for development. */

import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { type Command, command, isGiven, option, optional, several } from '../../src/shared/command-line.ts'
import { loadLibrary } from '../keys/pkcs11/library.ts'
import { nextSteps, runCeremony } from './keygen.ts'
import { writeNewFile } from './new-key.ts'
import { readCrlPlan, readPlan, readSigningPlan } from './options.ts'

const text = (value: string) => value
const HASH = option('sha256, sha384 or sha512', text, 'sha256')
const TOKEN = {
  token: optional('Label of the token', text),
  slot: optional('Slot of the token', text),
}
const PIN = {
  'pin-file': optional('File with the PIN; without it and --pin-env it is asked for', text),
  'pin-env': optional('Variable with the PIN', text),
}

const ROOT_KEY = {
  key: optional('File with the key of the root', text),
  'passphrase-file': optional('File with its passphrase', text),
  'passphrase-env': optional('Variable with its passphrase', text),
  'passphrase-prompt': isGiven('Ask for its passphrase on the terminal'),
  library: optional('PKCS#11 library; the key is in a token', text),
  ...TOKEN,
  label: optional('Label of the key in the token', text),
  id: optional('Id of the key in the token, hexadecimal', text),
  ...PIN,
}

/** @param version of the program, for the log of a ceremony */
export function ceremonyCommands(version: string): Command[] {
  return [keygen(version), signRequest(version), signCrl(version), INIT_SOFTHSM]
}

const keygen = (version: string) =>
  command({
    usage: 'keygen',
    about: [
      'Make a CA key and a self-signed root or a certificate request.',
      '',
      'With --root-days the certificate is a self-signed root, without it a request that another CA signs.',
      'With --library the key is made inside a PKCS#11 token and never leaves it; otherwise it becomes key.pem in --out.',
      'The folder --out gets root.pem or request.csr, and ceremony.log: each step with its time, the key, the fingerprints',
      'and the hashes of the files. PIN and passphrase come from a file (mode 600), a variable or the terminal.',
    ],
    options: {
      subject: optional('Name of the CA, last part first: "CN=Example Root CA,O=Example,C=DE"', text),
      type: option('P-256, P-384, P-521, RSA-2048, RSA-3072, RSA-4096, RSA-8192 or Ed25519 (in a file)', text, 'P-256'),
      hash: HASH,
      out: option('Folder for what is written', text, 'ceremony'),
      'root-days': optional('Make a self-signed root, valid for so many days', text),
      'path-length': optional('CA certificates that may stand below this one', text),
      library: optional('PKCS#11 library; the key is made in a token', text),
      ...TOKEN,
      label: optional('Label of the new key in the token', text),
      id: optional('Id of the new key in the token, hexadecimal; without it a random one', text),
      ...PIN,
      'passphrase-file': optional('Encrypt the key file with the passphrase in this file', text),
      'passphrase-env': optional('Encrypt the key file with the passphrase in this variable', text),
      'passphrase-prompt': isGiven('Encrypt the key file with a passphrase asked for on the terminal'),
    },
    examples: [
      'keygen --subject "CN=Example Root CA" --type P-384 --root-days 7300 --out root --passphrase-prompt',
      'keygen --subject "CN=Example Issuing CA" --library libsofthsm2.so --token ca --label issuing --out issuing',
    ],
    async run(options) {
      const plan = await readPlan(options, `chancery-signer ${version}`)
      await runCeremony(plan, (line) => console.log(line))
      for (const line of nextSteps(plan)) console.log(line)
      return 0
    },
  })

const signRequest = (version: string) =>
  command({
    usage: 'sign-request <request>',
    about: [
      'Sign the request of a CA with the key of a root: the other half of keygen, where the root is.',
      '',
      'Name and key are taken from the request; basic constraints, key usages, key identifiers, path length and validity are',
      'what an issuer of chancery-signer needs. The key is a file (--key) or in a token (--library).',
      'A type of names without --permit- is not limited: for no addresses, --exclude-ip 0.0.0.0/0 --exclude-ip ::/0.',
      'ceremony.log beside the certificate gets what was signed, with its fingerprints.',
    ],
    options: {
      root: optional('Certificate of the root, PEM', text),
      days: optional('How long the certificate is valid', text),
      'path-length': option('CA certificates that may stand below it', text, '0'),
      hash: HASH,
      out: option('File for the certificate', text, 'issuer.pem'),
      'permit-dns': several('Domain that it may certify, with all below it; may be given again', text),
      'permit-ip': several('Network that it may certify, such as 10.0.0.0/8; may be given again', text),
      'exclude-dns': several('Domain that it may not certify; wins; may be given again', text),
      'exclude-ip': several('Network that it may not certify; wins; may be given again', text),
      'crl-url': several("URL of the root's CRL (sign-crl), http://; may be given again", text),
      'issuer-url': several("URL of the root's certificate, http://; may be given again", text),
      ...ROOT_KEY,
    },
    examples: [
      'sign-request issuing/request.csr --root root/root.pem --key root/key.pem --passphrase-prompt --days 1825',
      'sign-request request.csr --root root.pem --library libsofthsm2.so --token root --label root --days 1825',
      'sign-request request.csr --root root.pem --key root.key --days 1825 --permit-dns corp.example --permit-ip 10.0.0.0/8',
    ],
    async run(options, [request = '']) {
      const plan = readSigningPlan(request, options, `chancery-signer ${version}`)
      const { signRequest } = await import('./sign-request.ts')
      await signRequest(plan, (line) => console.log(line))
      return 0
    },
  })

const signCrl = (version: string) =>
  command({
    usage: 'sign-crl',
    about: [
      'Sign the list of the CA certificates that a root has revoked.',
      '',
      'The list has all entries of the list before (--previous), those of --revoke, and the next number. Publish it, in DER,',
      'where --crl-url of sign-request has said, and make the next one before it ends.',
      'ceremony.log beside the list gets the number and each entry.',
    ],
    options: {
      root: optional('Certificate of the root, PEM', text),
      previous: optional('The list before this one, DER or PEM', text),
      number: optional('Number of the list; 1 for the first of a root, else the next one', text),
      revoke: several('Certificate file or serial number, =REASON behind it (keyCompromise); may be given again', text),
      days: optional('How long the list is valid', text),
      hash: HASH,
      out: option('File for the list', text, 'root.crl'),
      ...ROOT_KEY,
    },
    examples: [
      'sign-crl --root root.pem --key root.key --number 1 --days 365 --out root-1.crl',
      'sign-crl --root root.pem --key root.key --previous root-1.crl --revoke issuer.pem=keyCompromise --days 365 --out root-2.crl',
    ],
    async run(options) {
      const plan = readCrlPlan(options, `chancery-signer ${version}`)
      const { signCrl } = await import('./sign-crl.ts')
      await signCrl(plan, (line) => console.log(line))
      return 0
    },
  })

const INIT_SOFTHSM = command({
  usage: 'init-softhsm <folder>',
  about: [
    'Make a SoftHSM token for development.',
    '',
    'It gets a folder of its own with its own configuration and random PINs, and what to put into the configuration is',
    'printed. SoftHSM keeps keys in files: this is for trying things out, not for a CA.',
  ],
  options: {
    label: option('Label of the token', text, 'chancery-dev'),
    library: optional('SoftHSM library, where it is not in one of the usual places', text),
  },
  examples: ['init-softhsm ./softhsm'],
  async run({ label, library }, [folder = '']) {
    for (const line of describeSoftHsm(await initSoftHsm(folder, label, library))) console.log(line)
    return 0
  },
})

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
async function initSoftHsm(folder: string, label: string, library: string | undefined): Promise<SoftHsmFiles> {
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
function describeSoftHsm({ library, configuration, label, pinFile }: SoftHsmFiles): string[] {
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
