/** Certificates of a former CA by every name that they have, in every spelling, wherever a name can be asked for. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { administered } from '../support/administered.ts'
import { type FormerNames, issueFormerly } from '../support/former-ca.ts'
import { chancery, operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

interface Case {
  names: FormerNames
  /** As replies show them. */
  shown: readonly string[]
  /** Each finds the certificate. */
  asked: readonly string[]
}

const CASES: Readonly<Record<string, Case>> = {
  'a name in capitals': {
    names: { sans: [{ type: 'dns', value: 'WWW.Old.Test' }] },
    shown: ['www.old.test'],
    asked: ['www.old.test', 'WWW.OLD.TEST', 'www.old.test.', 'WWW.Old.Test'],
  },
  'an internationalized name': {
    names: { sans: [{ type: 'dns', value: 'XN--Bcher-KVA.old.test' }] },
    shown: ['xn--bcher-kva.old.test'],
    asked: ['bücher.old.test', 'BÜCHER.old.test.', 'xn--bcher-kva.old.test'],
  },
  'a common name alone': {
    names: { subject: 'CN=Printer.Old.Test', sans: [] },
    shown: ['printer.old.test'],
    asked: ['printer.old.test', 'Printer.Old.Test.'],
  },
  'a common name beside others': {
    names: { subject: 'CN=Web Server 7', sans: [{ type: 'dns', value: 'seven.old.test' }] },
    shown: ['seven.old.test', 'web server 7'],
    asked: ['seven.old.test', 'Web Server 7', 'web  server 7'],
  },
  'a mail address': {
    names: { subject: 'CN=Jane Doe', sans: [{ type: 'email', value: 'Jane.Doe@Old.Test' }] },
    shown: ['jane.doe@old.test', 'jane doe'],
    asked: ['jane.doe@old.test', 'Jane.Doe@OLD.test', 'Jane Doe'],
  },
  'a user principal name': {
    names: { subject: 'CN=JD', sans: [{ type: 'upn', value: 'JDoe@AD.Old.Test' }] },
    shown: ['jdoe@ad.old.test', 'jd'],
    asked: ['jdoe@ad.old.test', 'JDOE@ad.old.test'],
  },
  'a URI': {
    names: { subject: 'CN=team', sans: [{ type: 'url', value: 'spiffe://Old.Test/Team' }] },
    shown: ['spiffe://old.test/team', 'team'],
    asked: ['spiffe://old.test/team', 'SPIFFE://Old.Test/Team'],
  },
  'an invisible character in a common name': {
    names: { subject: 'CN=Sec\u202eret', sans: [] },
    shown: ['sec\ufffdret'],
    asked: ['sec\ufffdret', 'SEC\ufffdRET'],
  },
  'an address': {
    names: { subject: 'CN=router', sans: [{ type: 'ip', value: '2001:db8::7' }] },
    shown: ['2001:db8::7', 'router'],
    asked: ['2001:db8::7', '2001:DB8:0:0:0:0:0:7'],
  },
}

describe('certificates of a former CA are found', () => {
  const { service, as } = administered(() => sharedService('admin'))
  const admin = as('names')
  const serials = new Map<string, string>()
  const folder = temporaryFolder()
  before(async () => {
    for (const [what, { names }] of Object.entries(CASES)) {
      const { pem, serial } = await issueFormerly(service.ca, names)
      serials.set(what, serial)
      writeFileSync(path.join(folder, `${serial}.pem`), pem)
    }
    await operate(service, 'import', 'certificates', folder)
  })

  const query = (members: Record<string, string>) => new URLSearchParams(members).toString()
  const listed = async (members: Record<string, string>): Promise<string[]> =>
    (await admin.get(`/certificates?${query(members)}`)).json.map((one: { serial_number: string }) => one.serial_number)

  for (const [what, { shown, asked }] of Object.entries(CASES)) {
    test(`by ${what}, in lists and with all that is below it`, async () => {
      const serial = serials.get(what) as string
      assert.deepEqual((await admin.get(`/certificates/${serial}`)).json.san_values, shown)
      for (const name of asked) {
        assert.deepEqual(await listed({ domain: name }), [serial], name)
        assert.ok((await listed({ domain_suffix: name })).includes(serial), name)
      }
    })

    test(`by ${what}, in the search and in the time line`, async () => {
      const serial = serials.get(what) as string
      for (const name of asked)
        await until(`the search finds ${name} in its time`, async () => {
          const { groups } = (await admin.get(`/search?${query({ q: name })}`)).json
          const idsOf = (kind: string) =>
            groups.find((group: { kind: string }) => group.kind === kind)?.hits.map(({ id }: { id: string }) => id) ??
            []
          return idsOf('certificates').includes(serial) && shown.some((one) => idsOf('names').includes(one))
        })
      const { entries, state } = (await admin.get(`/names/${encodeURIComponent(asked.at(-1) as string)}`)).json
      assert.deepEqual(
        entries.map((one: { serial_number: string }) => one.serial_number),
        [serial],
      )
      assert.equal(state.certificate.serial_number, serial)
    })

    test(`by ${what}, in an incident and a bulk revocation`, async () => {
      const serial = serials.get(what) as string
      for (const name of asked) {
        const read = (await admin.send('POST', '/incidents/examine', { text: name })).json
        const reply = await admin.send('POST', '/certificates/bulk-revoke', { filter: read.filter, dry_run: true })
        assert.deepEqual(reply.json.serial_numbers, [serial], name)
      }
      const filter = { domain: asked.at(-1) as string }
      const { json } = await admin.send('POST', '/certificates/bulk-revoke', { filter, reason: 4 })
      assert.equal(json.revoked, 1)
      const { code, stdout } = await chancery(service, 'inspect', 'certificate', serial)
      assert.equal(code, 0)
      assert.match(stdout, /superseded/)
    })
  }
})
