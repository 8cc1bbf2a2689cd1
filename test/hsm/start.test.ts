/** Starts that are refused because of a token or its key, each with a sentence and without the PIN. */

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import {
  type Authority,
  makeAuthority,
  type SignerFiles,
  type TokenKeyYaml,
  writeSignerFiles,
} from '../signer/authority.ts'
import { SIGNER_PROGRAM } from '../signer/daemon.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import {
  buildFaultyLibrary,
  type FaultyLibrary,
  makeToken,
  PIN,
  SOFTHSM_LIBRARY,
  type TestToken,
} from '../support/softhsm.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requireCommand('g++'), requirePackage('graphene-pk11'))

const run = promisify(execFile)
const WRONG_PIN = '000000'
const PIN_REFUSED = 3

describe('the start with a key in a token', NEEDS, () => {
  const authority = makeAuthority('P-256')
  const other = makeAuthority('P-256')
  const rsa = makeAuthority('RSA')
  let token: TestToken
  let faults: FaultyLibrary
  before(() => {
    token = makeToken()
    faults = buildFaultyLibrary(token)
    token.importKey(authority.privateKey, 'issuing', '01')
    token.importKey(other.privateKey, 'twin', '02')
    token.importKey(other.privateKey, 'twin', '03')
    token.addToken('pair')
    token.addToken('pair')
  })
  after(() => token.remove())

  interface Outcome {
    code: number
    text: string
  }

  /** `--validate-only`: everything up to the socket, test signature included. */
  async function validate(key: TokenKeyYaml, options: { issuer?: Authority; env?: NodeJS.ProcessEnv } = {}) {
    const place = { library: faults.file, token: 'ca', pin_file: token.pinFile, label: 'issuing' }
    const whole = Object.fromEntries(Object.entries({ ...place, ...key }).filter(([, value]) => value !== ''))
    return validateFiles(
      writeSignerFiles({ default: options.issuer ?? authority }, '', '{}', { default: whole }),
      options.env,
    )
  }

  async function validateFiles(files: SignerFiles, more?: NodeJS.ProcessEnv): Promise<Outcome> {
    const env = { ...process.env, ...token.env, ...faults.env, ...more }
    const args = [SIGNER_PROGRAM, '--validate-only', '-c', files.config]
    try {
      const { stdout, stderr } = await run(process.execPath, args, { env })
      return { code: 0, text: stdout + stderr }
    } catch (error) {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }
      return { code, text: stdout + stderr }
    }
  }

  /** SoftHSM chooses the numbers; a refusal lists them. */
  async function slotOf(label: string): Promise<number> {
    const { text } = await validate({ token: 'nowhere' })
    return Number(new RegExp(`${label} \\(slot (\\d+)\\)`).exec(text)![1])
  }

  test('asks for the PIN on the terminal, and does not show it', async () => {
    const place = { library: faults.file, token: 'ca', pin_prompt: true, label: 'issuing' }
    const files = writeSignerFiles({ default: authority }, '', '{}', { default: place })
    const command = [process.execPath, SIGNER_PROGRAM, '--validate-only', '-c', files.config].join(' ')
    const terminal = spawn('script', ['-qec', command, '/dev/null'], {
      env: { ...process.env, ...token.env, ...faults.env },
    })
    let shown = ''
    terminal.stdout.on('data', (chunk: Buffer) => {
      shown += chunk.toString('utf8')
      // A slip of the finger first: backspace takes it back.
      if (/PIN of token ca: $/.test(shown)) terminal.stdin.write(`x\x7f${PIN}\r`)
    })
    const [code] = (await once(terminal, 'close')) as [number]
    assert.equal(code, 0, shown)
    assert.match(shown, /configuration is valid/)
    assert.doesNotMatch(shown, new RegExp(PIN))
  })

  function assertRefused({ code, text }: Outcome, reason: RegExp, expectedCode = 1): void {
    assert.match(text, reason)
    assert.equal(code, expectedCode, text)
    assert.equal(text.trim().split('\n').length, 1, text)
    assert.doesNotMatch(text, new RegExp(`${PIN}|${WRONG_PIN}`))
  }

  test('succeeds with the right one, by label, by id, by slot, with the PIN from a variable', async () => {
    for (const key of [
      {},
      { label: '', id: '01' },
      { id: '01' },
      { type: 'ec' },
      { pin_file: '', pin_env: 'TEST_PIN' },
      { token: '', slot: await slotOf('ca') },
    ]) {
      const outcome = await validate(key, { env: { TEST_PIN: PIN } })
      assert.equal(outcome.code, 0, outcome.text)
      assert.match(outcome.text, /issuer default: SHA256withECDSA, pkcs11 key/)
    }
  })

  test('tries a wrong PIN once and ends with a code of its own', async () => {
    const wrong = path.join(token.folder, 'wrong-pin')
    writeFileSync(wrong, WRONG_PIN, { mode: 0o600 })
    const before = faults.logins()
    assertRefused(await validate({ pin_file: wrong }), /logging in: CKR_PIN_INCORRECT/, PIN_REFUSED)
    assert.equal(faults.logins() - before, 1)
  })

  test('does not take the PIN of a second issuer that the token has not looked at', async () => {
    const wrong = path.join(token.folder, 'wrong-pin')
    const key = (label: string, pin_file: string) => ({ library: faults.file, token: 'ca', pin_file, label })
    const keys = { default: key('issuing', token.pinFile), second: { ...key('twin', wrong), id: '02' } }
    const files = writeSignerFiles({ default: authority, second: other }, '', '{}', keys)
    assertRefused(await validateFiles(files), /issuer second: .*another PIN/, PIN_REFUSED)
  })

  test('does not try any PIN on a token that one more wrong one would lock', async () => {
    faults.set('last-try')
    const before = faults.logins()
    assertRefused(await validate({}), /one attempt left/, PIN_REFUSED)
    faults.clear('last-try')
    assert.equal(faults.logins(), before)
  })

  const REFUSED: [string, TokenKeyYaml, RegExp][] = [
    ['a key that is not there', { label: 'missing' }, /no private key with label missing; the token shows: .*issuing/],
    ['an id that is not there', { id: '99' }, /no private key with label issuing and id 99/],
    ['a label that two keys have', { label: 'twin' }, /2 private keys have label twin: twin \(id 0[23]\), twin/],
    ['a token that is not there', { token: 'nowhere' }, /no token with label nowhere; present: .*ca \(slot \d+\)/],
    ['a label that two tokens have', { token: 'pair' }, /2 tokens have the label pair \(slots \d+, \d+\)/],
    ['a slot that is not there', { token: '', slot: 12345 }, /no token with slot 12345/],
    ['a key that is not the certificate’s', { label: 'twin', id: '02' }, /not the key of the issuer certificate/],
    ['a kind that is not the certificate’s', { type: 'rsa' }, /configured as rsa, the issuer certificate holds .*ec/],
    [
      'a library that is not there',
      { library: '/nowhere/lib.so' },
      /PKCS#11 library \/nowhere\/lib.so cannot be loaded/,
    ],
    ['no PIN', { pin_file: '' }, /needs a PIN: set pin_file, pin_env or pin_prompt/],
    ['an empty variable', { pin_file: '', pin_env: 'TEST_NO_PIN' }, /TEST_NO_PIN is empty; it should hold the PIN/],
    ['a prompt without a terminal', { pin_file: '', pin_prompt: true }, /no terminal to ask for the PIN of token ca/],
    ['no login to a private key', { login: false }, /no private key with label issuing; the token shows: none/],
  ]
  for (const [what, key, reason] of REFUSED) {
    test(`is refused for ${what}`, async () => assertRefused(await validate(key), reason))
  }

  test('is refused for a certificate of another kind of key', async () => {
    assertRefused(await validate({}, { issuer: rsa }), /is of kind ec, the key of the issuer certificate of kind rsa/)
  })

  test('is refused for Ed25519, which tokens do not sign here', async () => {
    assertRefused(await validate({}, { issuer: makeAuthority('Ed25519') }), /of kind ec, .* of kind ed25519/)
  })

  test('is refused for a PIN file that others can read', async () => {
    chmodSync(token.pinFile, 0o640)
    assertRefused(await validate({}), /pin: mode 640 lets others read it/)
    chmodSync(token.pinFile, 0o600)
  })

  test('is refused with a word about the package when its native part is missing', async () => {
    const loader = path.join(token.folder, 'absent.mjs')
    writeFileSync(
      loader,
      `export const resolve = (name, context, next) => {
         if (name !== 'graphene-pk11') return next(name, context)
         throw Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' })
       }`,
    )
    const outcome = await validate({}, { env: { NODE_OPTIONS: `--no-warnings --loader ${loader}` } })
    assertRefused(outcome, /keys in a token need the package graphene-pk11: it is not installed/)
  })

  test('says what SoftHSM needs when it finds no configuration, or no folder of tokens', async () => {
    const conf = path.join(token.folder, 'no-folder.conf')
    writeFileSync(conf, '# of another host\ndirectories.tokendir = /nowhere/tokens/\n')
    for (const [SOFTHSM2_CONF, sentence] of [
      [
        conf,
        /CKR_GENERAL_ERROR; the folder \/nowhere\/tokens\/ \(directories.tokendir in .*no-folder.conf, .*\(ENOENT\)/,
      ],
      [
        '/nowhere/softhsm2.conf',
        /CKR_GENERAL_ERROR; the file \/nowhere\/softhsm2.conf, which SOFTHSM2_CONF names, cannot be read \(ENOENT\)/,
      ],
      ['', /CKR_GENERAL_ERROR; set SOFTHSM2_CONF to the configuration file of SoftHSM/],
    ] as const) {
      assertRefused(await validate({ library: SOFTHSM_LIBRARY }, { env: { SOFTHSM2_CONF } }), sentence)
    }
  })

  test('finds a library of the system by its name', async () => {
    const outcome = await validate(
      { library: path.basename(SOFTHSM_LIBRARY) },
      { env: { LD_LIBRARY_PATH: path.dirname(SOFTHSM_LIBRARY) } },
    )
    assert.equal(outcome.code, 0, outcome.text)
  })
})
