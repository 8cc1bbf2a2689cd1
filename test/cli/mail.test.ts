/** `chancery mail`: a mail that shows whether the server takes mail, and the words of each mail. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { stringify } from 'yaml'
import { NOTIFICATION_TYPES } from '../../src/domain/notification.ts'
import { runChancery } from '../support/commands.ts'
import { each } from '../support/each.ts'
import { startMailServer } from '../support/mail-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { MINIMAL, merged } from '../unit/config/support.ts'

describe('mail from the command line', () => {
  const folder = temporaryFolder()

  function mail(smtp: object, ...words: string[]) {
    const file = path.join(folder, 'config.yaml')
    writeFileSync(file, stringify(merged(MINIMAL, { smtp })))
    return runChancery(['-c', file, 'mail', ...words])
  }
  const settings = (port: number) => ({
    enabled: true,
    host: '127.0.0.1',
    port,
    use_tls: false,
    from_address: 'acme@example.com',
  })

  test('test sends one mail, and says which server has taken it for whom', async (context) => {
    const { port, mails, close } = await startMailServer()
    context.after(close)
    const { code, stdout } = await mail(settings(port), 'test', '--to', 'ops@example.com')
    assert.deepEqual([code, stdout], [0, `127.0.0.1:${port} has taken the mail for ops@example.com\n`])
    assert.deepEqual(each(mails, 'from', 'to'), [['acme@example.com', ['ops@example.com']]])
    assert.match(mails[0]?.text ?? '', /test of the mail settings of https:\/\/acme\.example\.com/)
    const asJson = await mail(settings(port), 'test', '--to', 'ops@example.com', '--json')
    assert.deepEqual(JSON.parse(asJson.stdout), { server: `127.0.0.1:${port}`, recipient: 'ops@example.com' })
  })

  test('test repeats what the server says against it', async (context) => {
    const { port, close } = await startMailServer({
      onRcptTo: (_address, _session, done) => done(Object.assign(new Error('no such user'), { responseCode: 550 })),
    })
    context.after(close)
    const refused = await mail(settings(port), 'test', '--to', 'nobody@example.com')
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, new RegExp(`127\\.0\\.0\\.1:${port} did not take the mail: .*550 no such user`))
    await close()
    const away = await mail(settings(port), 'test', '--to', 'ops@example.com')
    assert.match(away.stderr, /did not take the mail: .*ECONNREFUSED/)
  })

  test('test needs a recipient, a server and a sender', async () => {
    assert.match((await mail(settings(1), 'test')).stderr, /--to: is missing/)
    const without = await mail({}, 'test', '--to', 'ops@example.com')
    assert.deepEqual([without.code, /smtp\.host and smtp\.from_address are needed/.test(without.stderr)], [1, true])
  })

  test('preview prints each of the mails as text, and as HTML', async () => {
    for (const type of NOTIFICATION_TYPES) {
      const text = await mail({}, 'preview', type)
      assert.equal(text.code, 0, text.stderr)
      assert.match(text.stdout, /^Subject: \S.{10,190}\n\n\S/)
      assert.match((await mail({}, 'preview', type, '--html')).stdout, /^<!DOCTYPE html>[\s\S]+<\/html>/)
    }
    const unknown = await mail({}, 'preview', 'birthday')
    assert.deepEqual([unknown.code, /"birthday" is no notification type/.test(unknown.stderr)], [1, true])
  })

  test('preview shows templates of the operator, and ends with 1 when one is broken', async () => {
    const smtp = { templates_path: folder }
    writeFileSync(path.join(folder, 'account_deactivated_subject.txt'), 'Good-bye {{ account_id }}')
    assert.match((await mail(smtp, 'preview', 'account_deactivated')).stdout, /^Subject: Good-bye \S+$/m)
    writeFileSync(path.join(folder, 'account_deactivated_body.txt'), '{% if %}')
    const broken = await mail(smtp, 'preview', 'account_deactivated')
    assert.equal(broken.code, 1)
    assert.match(broken.stderr, /^account_deactivated_body\.txt is broken, and the built-in one is used: /)
    assert.match(broken.stdout, /^Subject: Good-bye/)
  })
})
