// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${VAR} is the syntax of the file

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseConfigText } from '../../../src/config/load.ts'
import { words } from '../../support/words.ts'
import { MINIMAL, merged, nested, parseTree, parseYaml, type Tree } from './support.ts'

const SECRET = 'hunter2hunter2'

/** Everything that a start could print. */
function output(parsed: ReturnType<typeof parseTree>): string {
  return JSON.stringify(parsed.ok ? parsed.warnings : parsed.errors)
}

const SECRETS = words`
  database.password smtp.password admin_api.token_secret ca.hsm.pin ca.acme_proxy.eab_hmac_key
  ca.acme_proxy.proxy_url ca.external.auth_value ca.external.sign_url audit_export.webhook_url perspective.tokens
`

describe('secrets stay out of messages', () => {
  for (const path of SECRETS)
    test(`${path} of any wrong kind is not shown`, () => {
      const number = 31337421
      for (const value of [[SECRET], { a: SECRET }, number, [number], SECRET]) {
        const text = output(parseTree(nested({ [path]: value })))
        assert.ok(!text.includes(SECRET) && !text.includes(String(number)), text)
      }
    })

  const placements: [string, Tree][] = [
    ['where a section belongs', { admin_api: SECRET, database: SECRET }],
    ['where a list belongs', { smtp: { cc: SECRET } }],
    ['behind a misspelt key', { database: { pasword: SECRET } }],
    ['in a short admin secret', { admin_api: { enabled: true, initial_admin_email: 'a@b', token_secret: SECRET } }],
    ['in a URL with login', { server: { external_url: `https://user:${SECRET}@acme.example.com` } }],
    ['in the token of a perspective', { challenges: { perspectives: [{ name: 'a b', url: 'x', token: SECRET }] } }],
    ['in the settings of a hook', { hooks: { registered: [{ class: 'x y', config: { key: SECRET } }] } }],
    [
      'in too many settings of a hook',
      {
        hooks: {
          registered: [
            { class: './x', config: Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`k${n}`, SECRET])) },
          ],
        },
      },
    ],
    ['in a partial reference', { database: { password: `${SECRET}\${X}` } }],
    ['in the default of a reference', { server: { port: `\${PORT:-${SECRET}}` } }],
  ]
  for (const [name, patch] of placements)
    test(`a secret ${name} is not shown`, () => {
      const text = output(parseTree(patch))
      assert.ok(!text.includes(SECRET), text)
    })

  test('what a variable holds is not shown, wherever it was put by mistake', () => {
    const patch = {
      server: { port: '${S}', bind: '${S}' },
      logging: { level: '${S}' },
      tos: { url: '${S}' },
      dns: { resolvers: ['${S}'] },
    }
    const text = output(parseTree(patch, { S: SECRET }))
    assert.ok(!text.includes(SECRET) && text.includes('${S}'), text)
  })

  const broken = [
    `database:\n  password: *${SECRET}\n`,
    `database:\n  password: "${SECRET}\n`,
    `database:\n  password: '${SECRET}' '\n`,
    `database:\n  password: !${SECRET} x\n`,
    `database:\n  password: @${SECRET}\n`,
    `database:\n  password: "\\q${SECRET}"\n`,
    `database:\n  password: a: ${SECRET}\n`,
    `database:\n\tpassword: ${SECRET}\n`,
  ]
  for (const text of broken)
    test(`the source is not quoted for ${JSON.stringify(text.replace(SECRET, '…'))}`, () => {
      const parsed = parseYaml(text)
      assert.ok(!parsed.ok)
      assert.ok(!output(parsed).includes(SECRET), output(parsed))
    })

  test('broken JSON is not quoted either', () => {
    const text = JSON.stringify(merged(MINIMAL, { database: { password: SECRET } }))
    for (const wrong of [
      text.slice(0, -1),
      text.replace(`"${SECRET}"`, SECRET),
      text.replace(`"${SECRET}"`, `'${SECRET}'`),
    ]) {
      const parsed = parseConfigText(wrong, { format: 'json', env: {} })
      assert.ok(!parsed.ok)
      assert.ok(!output(parsed).includes(SECRET))
    }
  })
})
