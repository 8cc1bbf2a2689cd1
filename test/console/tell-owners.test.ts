/** Owners of certificates at risk are asked by mail to renew: the preview, the mail, and who gets none. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type AcmeClient, createAcmeClient, type Obtained } from '../support/acme-client.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf, newestEntries } from '../support/bound.ts'
import type { ReceivedMail } from '../support/mail-server.ts'
import { chancery, operate } from '../support/operator.ts'
import { requireCommand } from '../support/requirements.ts'
import { mailsOf, sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'
import { assertAccessible, ConsoleBrowser, closeChromium, press } from './browser.ts'

describe('owners of certificates at risk', () => {
  const at = issuingOn(() => sharedService('mails'))
  let mails: ReceivedMail[]
  /** Has two contacts; `at.client` has none. */
  let owner: AcmeClient
  const serials: string[] = []
  /** Of a certificate that is not at risk. */
  let young: string
  before(async () => {
    mails = (await mailsOf()).mails
    owner = await createAcmeClient(at.service.directoryUrl)
    const contact = ['mailto:team-a@example.com', 'mailto:desk@example.com']
    assert.equal((await owner.newAccount({ termsOfServiceAgreed: true, contact })).status, 201)
    for (const [client, name] of [
      [owner, 'first.test'],
      [owner, 'second.test'],
      [owner, 'renewed.test'],
      [at.client, 'silent.test'],
    ] as const)
      serials.push(serialOf(await client.obtain([name], at.responder)))
    await at.sql(
      "UPDATE certificates SET not_before = now() - interval '80 days', not_after = now() + interval '10 days'",
    )
    young = serialOf(await owner.obtain(['renewed.test'], at.responder))
  })

  const serialOf = ({ der }: Obtained) => new X509Certificate(der).serialNumber.toLowerCase().replace(/^(00)+/, '')
  const notify = (body: object, who = at.admin) => who.send('POST', '/at-risk/notify', body)
  const toTeam = () => mails.filter(({ text }) => text.includes('due for renewal'))
  const noted = async () => (await newestEntries(at.admin, 50)).filter(({ action }) => action === 'renewal.notify')

  test('the preview shows the mail of each account, counts those without a contact, and sends nothing', async () => {
    const { status, json, text } = await notify({ serial_numbers: serials, dry_run: true })
    assert.equal(status, 200, text)
    const { enabled, certificates, not_at_risk, mails: count, without_contact, owners } = json
    assert.deepEqual([enabled, certificates, not_at_risk, count, without_contact], [true, 3, 1, 2, 1])
    const ours = owners.find(({ account_id }: { account_id: string }) => account_id === accountIdOf(owner))
    assert.deepEqual(ours.recipients, ['team-a@example.com', 'desk@example.com'])
    assert.match(ours.subject, /^Certificates to renew: (first|second)\.test, (first|second)\.test$/)
    assert.match(ours.text, /2 certificates of your account are due for renewal/)
    assert.match(ours.text, /^first\.test, valid until \d{4}-\d\d-\d\d \d\d:\d\d UTC$/m)
    assert.doesNotMatch(ours.text, /renewed\.test/)
    assert.deepEqual([toTeam().length, (await noted()).length], [0, 0])
  })

  test('each contact gets one mail about all certificates of the account, with one entry in the audit log', async () => {
    const { json } = await notify({ serial_numbers: serials })
    assert.deepEqual([json.mails, json.without_contact], [2, 1])
    const sent = await until('both have the mail', async () => toTeam().length === 2 && toTeam())
    assert.deepEqual(sent.flatMap(({ to }) => to).sort(), ['desk@example.com', 'team-a@example.com'])
    const [entry, ...others] = await noted()
    assert.deepEqual([entry?.details['certificates'], entry?.details['mails'], others], [2, 2, []])
  })

  test('a contact has three of these mails a day, whoever asks how often', async () => {
    const sent = toTeam().length
    const stay = (await notify({ serial_numbers: serials, dry_run: true })).json.mails
    assert.equal(stay, 2)
    await at.sql(
      `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, account_id, status, message_id)
       SELECT gen_uuid, notification_type, upper(recipient), subject, body_text, body_html, account_id, 'sent', 'm'
         FROM notifications, unnest($1::uuid[]) AS gen_uuid
        WHERE notification_type = 'renewal_request' AND recipient = 'desk@example.com'`,
      [[uuidv7(Date.now()), uuidv7(Date.now())]],
    )
    const { json } = await notify({ serial_numbers: serials, dry_run: true })
    const ours = json.owners.find(({ account_id }: { account_id: string }) => account_id === accountIdOf(owner))
    assert.deepEqual([ours.recipients, ours.passed_over], [['team-a@example.com'], ['desk@example.com']])
    assert.deepEqual([json.mails, json.without_contact, toTeam().length], [1, 1, sent])
    await at.sql("DELETE FROM notifications WHERE message_id = 'm'")
  })

  test('an auditor may not, and the certificates are between 1 and 200', async () => {
    assert.equal((await notify({ serial_numbers: serials, dry_run: true }, at.auditor)).status, 403)
    for (const serial_numbers of [[], Array.from({ length: 201 }, () => '7a')])
      assert.equal((await notify({ serial_numbers })).status, 400)
  })

  test('owners of certificates that need no renewal yet are not told that they do', async () => {
    const { json } = await notify({ serial_numbers: [young] })
    assert.deepEqual([json.certificates, json.not_at_risk, json.mails, json.owners], [0, 1, 0, []])
    const told = await chancery(at.service, 'certificates', 'tell-owners', young, '--send')
    assert.equal(told.code, 1)
    assert.match(told.stdout, /^0 mail\(s\) about 0 certificate\(s\) .*; 1 of those named are not at risk/m)
  })

  test('revoked and unknown certificates are passed over', async () => {
    const [first = ''] = serials
    await at.admin.send('POST', `/certificates/${first}/revoke`, { reason: 4 })
    const { json } = await notify({ serial_numbers: [first, 'ab12'] })
    assert.deepEqual([json.certificates, json.mails, json.owners], [0, 0, []])
  })

  test('on the command line: the mails first, which are sent with --send', async () => {
    const before = toTeam().length
    const told = (...words: string[]) => operate(at.service, 'certificates', 'tell-owners', ...words)
    const shown = await told('--all')
    assert.match(shown, /^To: team-a@example\.com, desk@example\.com\nSubject: Certificate to renew: second\.test$/m)
    assert.match(
      shown,
      /^2 mail\(s\) about 2 certificate\(s\) would be sent with --send; 1 account\(s\) have no contact$/m,
    )
    assert.equal(JSON.parse(await told('--account-id', accountIdOf(owner), '--json')).certificates, 1)
    assert.equal(toTeam().length, before)
    assert.match(await told(serials[1] ?? '', '--send'), /^2 mail\(s\) about 1 certificate\(s\) will be sent$/m)
    await until('both have another mail', async () => toTeam().length === before + 2)
    for (const [words, code] of [
      [[], 2],
      [['--all', 'ab12'], 2],
      [['--expiring-before', '2020-01-01'], 1],
      [['ab12'], 1],
    ] as const)
      assert.equal((await chancery(at.service, 'certificates', 'tell-owners', ...words)).code, code, words.join(' '))
  })

  test('in the console: select, look at the mail, send', requireCommand('chromium-headless-shell'), async (context) => {
    const before = toTeam().length
    context.after(closeChromium)
    const browser = await ConsoleBrowser.start(at.service)
    const { page } = await browser.as('admin', '/at-risk')
    await page.locator('tbody tr', { hasText: 'second.test' }).getByRole('checkbox').check()
    await press(page, 'Tell the owner …')
    const dialog = page.getByRole('dialog')
    await dialog.getByText('2 mails about 1 certificate.').waitFor()
    await dialog.getByText('Certificate to renew: second.test').waitFor()
    await assertAccessible(page, 'telling an owner')
    await press(dialog, 'Send')
    await page.getByText('2 mails queued.').waitFor()
    await until('both have another mail', async () => toTeam().length === before + 2)
  })
})
