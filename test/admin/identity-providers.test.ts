/** Sign-in by each provider of docs/operations/identity-providers.md, with the configuration of that page. */

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { DatabasePool } from 'slonik'
import { parse } from 'yaml'
import { AuditLog } from '../../src/admin/audit/audit-log.ts'
import type { OidcSignIn } from '../../src/admin/users/oidc-sign-in.ts'
import { HASHING_HERE, PasswordHasher } from '../../src/admin/users/passwords.ts'
import { SignIn } from '../../src/admin/users/sign-in.ts'
import { createOidc } from '../../src/main/admin/configured-parts.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { TOKEN_SECRET } from '../support/admin.ts'
import { rowsIn, type TestDatabase, testDatabase } from '../support/database.ts'
import { type HostileProvider, startHostileProvider } from '../support/hostile-provider.ts'
import { CLIENT } from '../support/oidc-client.ts'
import { SHAPES } from '../support/provider-shapes.ts'
import { aConfig } from '../unit/config/support.ts'

const PAGE = readFileSync(new URL('../../../docs/operations/identity-providers.md', import.meta.url), 'utf8')
/** Each provider's heading, and the configuration below it. */
const EXAMPLES = new Map(
  [...PAGE.matchAll(/^## (.+)\n\n```yaml\n([^`]+)```/gm)].map(([, name = '', yaml = '']) => [name, yaml] as const),
)
const CLIENT_HERE = { ipAddress: '127.0.0.1', userAgent: undefined }

test('the page has a row and an example for each provider that is tried here, and for no other', () => {
  const rows = [...PAGE.matchAll(/^\| \[(.+?)\]\(#/gm)].map(([, name]) => name)
  assert.deepEqual(rows, Object.keys(SHAPES))
  assert.deepEqual([...EXAMPLES.keys()], Object.keys(SHAPES))
})

describe('signing in by', () => {
  let database: TestDatabase
  let db: DatabasePool
  before(async () => {
    database = await testDatabase()
    db = await openCheckedDatabase(settingsFor(database.connection, 2))
  })
  after(async () => {
    await db?.end()
    await database?.drop()
  })

  /** As the service makes it of its configuration, at the address of the provider of this test. */
  function signInWith(example: string, issuer: string, failed: (reason: string) => void): OidcSignIn {
    const { oidc } = parse(example).admin_api
    const config = aConfig({
      admin_api: {
        enabled: true,
        token_secret: TOKEN_SECRET,
        console_url: 'https://ca.example/api/console/',
        oidc: { ...oidc, issuer, client_id: CLIENT.id, client_secret: CLIENT.secret },
      },
    })
    const audit = new AuditLog(db, Buffer.alloc(64, 1))
    const signIn = new SignIn({
      db,
      audit,
      passwords: new PasswordHasher(HASHING_HERE),
      tokenSecret: TOKEN_SECRET,
      tokenExpirySeconds: 3_600,
      recentSignInSeconds: 0,
      requireSecondFactor: false,
    })
    const made = createOidc(config, { db, audit, signIn, tokenSecret: TOKEN_SECRET, failed })
    assert.ok(made)
    return made
  }

  for (const [name, { says, username, refused }] of Object.entries(SHAPES))
    describe(name, () => {
      let provider: HostileProvider
      const example = EXAMPLES.get(name) ?? ''
      const reasons: string[] = []
      before(async () => {
        const { pathname } = new URL(parse(example).admin_api.oidc.issuer)
        const isHost = pathname === '/' && !/issuer: \S+\/\n/.test(example)
        provider = await startHostileProvider(undefined, isHost ? '' : pathname)
      })
      after(async () => {
        await provider?.close()
        // The next provider has an Anna of its own.
        await rowsIn(database, 'UPDATE admin_users SET username = id::text')
      })

      async function signIn(said: HostileProvider['says']) {
        provider.says = said
        // Metadata are kept for ten minutes.
        const oidc = signInWith(example, provider.issuer, (reason) => reasons.push(reason))
        const browser = randomBytes(32).toString('base64url')
        const secrets = {
          nonce: randomBytes(32).toString('base64url'),
          verifier: randomBytes(32).toString('base64url'),
        }
        const url = await oidc.start(secrets, createHash('sha256').update(browser).digest('base64url'), false)
        return oidc.finish(provider.reply(url), browser, CLIENT_HERE)
      }

      test('gives the user the role of the group, and is the same user the next time', async () => {
        const { user } = await signIn(says)
        assert.deepEqual([user.username, user.email, user.role], [username, 'anna@corp.example', 'admin'])
        assert.equal((await signIn(says)).user.id, user.id)
        assert.deepEqual(reasons, [])
      })

      for (const [what, { says: otherwise, told, logged }] of Object.entries(refused))
        test(`with ${what} signs nobody in, and says why`, async () => {
          reasons.length = 0
          await assert.rejects(signIn({ ...says, ...otherwise }), told ?? /the provider has not confirmed the sign-in/)
          if (logged) assert.match(reasons.join('\n'), logged)
          else assert.deepEqual(reasons, [])
        })
    })
})
