/** Issuers that cannot issue are refused by `--validate-only` and at the start, with a sentence. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { writeExtendedKeyUsage } from '../../src/shared/pki/extensions.ts'
import { type Authority, constraintsOn, makeAuthority, type SignerFiles, writeSignerFiles } from './authority.ts'
import { SIGNER_PROGRAM, startDaemon } from './daemon.ts'

const run = promisify(execFile)

/** @returns exit code and what was said */
async function validate({ config }: SignerFiles): Promise<{ code: number; text: string }> {
  try {
    const { stdout } = await run(process.execPath, [SIGNER_PROGRAM, '--validate-only', '-c', config])
    return { code: 0, text: stdout }
  } catch (error) {
    const { code, stderr } = error as { code: number; stderr: string }
    return { code, text: stderr }
  }
}

/** @param chain further certificates in the issuer's file */
async function withFiles<T>(
  authorities: Record<string, Authority>,
  chain: readonly Authority[],
  work: (files: SignerFiles) => Promise<T>,
  policy = '{}',
): Promise<T> {
  const files = writeSignerFiles(authorities, '', policy)
  const [first] = Object.keys(authorities)
  const pem = [authorities[first as string] as Authority, ...chain].map(({ certificatePem }) => certificatePem).join('')
  writeFileSync(path.join(files.folder, `${first}.pem`), pem)
  return work(files)
}

const onlyA = constraintsOn({ dns: ['a.test'] }, { ip: ['0.0.0.0/0', '::/0'] })
const root = makeAuthority('P-256', { name: 'Root' })
const oldRoot = makeAuthority('P-256', { name: 'Root', daysAhead: -2 })
const narrowRoot = makeAuthority('P-256', { name: 'Root', constraints: onlyA })
const shortRoot = makeAuthority('P-256', { name: 'Root', pathLength: 0 })
const middle = makeAuthority('P-256', { name: 'Middle', by: shortRoot })
const stranger = makeAuthority('P-256', { name: 'Stranger' })
const below = (by: Authority, more: Parameters<typeof makeAuthority>[1] = {}) =>
  makeAuthority('P-256', { name: 'Issuing', by, ...more })

describe('an issuer that cannot issue', { concurrency: 2 }, () => {
  const rows: readonly (readonly [string, Authority, readonly Authority[], RegExp, string?])[] = [
    [
      'has expired',
      makeAuthority('P-256', { daysAhead: -1 }),
      [],
      /issuer default: its certificate expired since \d{4}-/,
    ],
    [
      'is not valid yet',
      makeAuthority('P-256', { daysAhead: 90, startsInDays: 2 }),
      [],
      /issuer default: its certificate is not valid before \d{4}-/,
    ],
    ['is below an expired one', below(oldRoot), [oldRoot], /a certificate above it in a chain expired since \d{4}-/],
    ['is no CA', makeAuthority('P-256', { isCa: false }), [], /the issuer is not a CA certificate/],
    ['may not sign certificates', makeAuthority('P-256', { keyUsages: ['crl_sign'] }), [], /does not allow signing/],
    ['is in a chain that is out of order', below(root), [stranger, root], /certificate 1 of the chain is not signed/],
    ['is one CA too many', below(middle), [middle, shortRoot], /certificate 3 of the chain allows 0 CA certificates/],
    [
      'may certify no name that those above it permit',
      below(narrowRoot, { constraints: constraintsOn({ dns: ['b.test'] }) }),
      [narrowRoot],
      /together admit no name/,
    ],
    [
      'may certify no name that the policy permits',
      makeAuthority('P-256', { constraints: onlyA }),
      [],
      /together admit no name/,
      '{ permitted: { dns: [b.test] } }',
    ],
    [
      'has none of the key purposes of the policy',
      makeAuthority('P-256', { more: (writer) => writeExtendedKeyUsage(writer, ['email_protection']) }),
      [],
      /extended key usages, and those above it, allow none/,
    ],
  ]
  for (const [why, authority, chain, sentence, policy] of rows)
    test(`because it ${why} is refused by --validate-only`, () =>
      withFiles(
        { default: authority },
        chain,
        async (files) => {
          const { code, text } = await validate(files)
          assert.equal(code, 1, text)
          assert.match(text, sentence)
        },
        policy,
      ))

  test('because another id has its name and key is refused, since the CRL of both has one URL', () => {
    const authority = makeAuthority('P-256')
    return withFiles({ default: authority, renewed: authority }, [], async (files) => {
      const { code, text } = await validate(files)
      assert.equal(code, 1)
      assert.match(
        text,
        /issuer renewed: it has the name and the key of default: put a renewed certificate in the place/,
      )
    })
  })

  test('fails the start with the same sentence when it is the only one', () =>
    withFiles({ default: makeAuthority('P-256', { daysAhead: -1 }) }, [], async ({ config }) => {
      await assert.rejects(startDaemon(config), /issuer default: its certificate expired since/)
    }))

  // It still signs its CRLs (docs/operations/signer.md).
  test('beside one that can: the start says so, and goes on', () =>
    withFiles({ old: makeAuthority('P-256', { daysAhead: -1 }), young: makeAuthority() }, [], async ({ config }) => {
      const daemon = await startDaemon(config)
      assert.match(daemon.output(), /issuer old: its certificate expired since/)
      assert.equal(await daemon.stop(), 0)
    }))

  test('for much longer is warned of, as is one above it', () => {
    const ending = makeAuthority('P-256', { name: 'Root', daysAhead: 20 })
    return withFiles({ default: below(ending, { daysAhead: 10 }) }, [ending], async (files) => {
      const { code, text } = await validate(files)
      assert.equal(code, 0, text)
      assert.match(text, /warning: issuer default: its certificate ends at \d{4}-/)
      assert.match(text, /warning: issuer default: a certificate above it in a chain ends at/)
    })
  })
})
