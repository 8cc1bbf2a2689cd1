/** README.md as a newcomer types it, in a clone on a copy of this machine; what npm would fetch is there already. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { CHECKOUT, openPrivateHost, type PrivateHost, requirePrivateHost } from '../support/hosts/private-host.ts'
import { pageBlock } from '../support/page-blocks.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { until } from '../support/until.ts'

const README = 'README.md'
const CLONE = '/srv/chancery'

describe(
  'the first five minutes',
  requireAll(requirePrivateHost(), requireCommand('certbot'), requireCommand('lego')),
  () => {
    let host: PrivateHost
    before(async () => {
      host = await openPrivateHost({ systemd: false })
    })
    after(() => host.close())

    async function sh(text: string): Promise<string> {
      const { code, output } = await host.run('env', 'HOME=/root', 'sh', '-euc', text)
      assert.equal(code, 0, `${text}\n${output}`)
      return output
    }
    const inClone = (block: string) => sh(`cd ${CLONE}\n${pageBlock(README, block)}`)

    test('npm start runs from a clone', async () => {
      const lines = pageBlock(README, 'start', { '<this repository>': `--no-hardlinks ${CHECKOUT}` })
      // A clone that shares the installed packages uses them unchanged.
      const typed = lines.replace(
        /^npm start$/m,
        `ln -s ${CHECKOUT}/node_modules node_modules\nnpm start >/root/start.log 2>&1 &`,
      )
      await sh(`cd /srv\n${typed}`)
      await until('the service is ready', () =>
        /https:\/\/localhost:8443\/directory/.test(host.read('/root/start.log')),
      )
      await until(
        'it answers',
        async () => (await host.run('curl', '-fsSk', 'https://localhost:8443/directory')).code === 0,
      )
    })

    for (const client of ['certbot', 'lego'])
      test(`${client} gets a certificate`, async () => {
        await inClone(client)
      })

    test('the command line lists both', async () => {
      assert.equal((await inClone('list')).match(/(?<!@)demo\.test/g)?.length, 2)
    })
  },
)
