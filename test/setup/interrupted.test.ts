/** `chancery setup` that is killed between two steps, and run again as an operator would. */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { CHECKOUT, requirePrivateHost } from '../support/hosts/private-host.ts'
import { ANSWERS_FILE, answersFile, openSetupHost, type SetupHost, withSetupHost } from '../support/hosts/setup-run.ts'

const UNATTENDED = ['--unattended', '--answers', ANSWERS_FILE]
const DONE = /^ {2}([A-Z][^…]*?) … (?:\n {4}.*\n)?(changed|checked|done already|kept as it is)$/gm

/** The steps that are done, each with its title on one line. */
const stepsIn = (output: string): string[] =>
  [...output.matchAll(DONE)].map(([, title = '', said]) => `${title.replaceAll(/\s+/g, ' ')} … ${said}`)

describe('killed between two steps', requirePrivateHost(), () => {
  let host: SetupHost
  before(async () => {
    host = await openSetupHost()
  })
  after(() => host.close())

  /** Kills setup, and not what it has started, once `isNow` says so. @returns what it had printed, and whether it was killed */
  async function killedWhen(isNow: (steps: readonly string[]) => boolean, ...options: string[]) {
    const [file, args] = host.inside(
      ...['-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', '/usr/bin/node', `${CHECKOUT}/dist/src/cli/main.js`, 'setup'],
      ...UNATTENDED,
      ...options,
    )
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    let isKilled = false
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        output += chunk
        if (isKilled || !isNow(stepsIn(output))) return
        // It has joined the namespace of processes, and setup is its child.
        const inner = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim()
        if (inner !== '') isKilled = process.kill(Number(inner), 'SIGKILL')
      })
    await once(child, 'close')
    return { output, isKilled }
  }

  const directory = async () =>
    JSON.parse(
      await host.must(
        ...['curl', '-sf', '-H', 'Host: acme.corp.example', '-H', 'X-Forwarded-Proto: https'],
        ...['-H', 'X-Forwarded-For: 192.0.2.7', 'http://127.0.0.1:8443/directory'],
      ),
    ) as { meta: { externalAccountRequired?: boolean } }

  /** What runs is what is written, nothing is half there, and what was made once can be used. */
  async function requireWhole(isBound: boolean): Promise<void> {
    assert.match(host.read('/etc/chancery/config.yaml'), new RegExp(`eab_required: ${isBound}`))
    assert.equal((await directory()).meta.externalAccountRequired === true, isBound)
    assert.equal(await host.must('sh', '-c', 'find /etc/chancery /root -name "*.new"'), '')
    const secrets = host.read('/root/chancery-secrets.txt')
    assert.match(secrets, /^password: \S{20}$/m)
    assert.match(secrets, /^hmac_key: \S{43}$/m)
    assert.match(await host.chancery('audit', 'verify'), /whole/)
    const doctor = await host.run(
      ...['node', `${CHECKOUT}/dist/src/cli/main.js`, '-c', '/etc/chancery/config.yaml'],
      ...['doctor', '--only', 'configuration,files,signer', '--json'],
    )
    assert.match(doctor.output, /"failure": 0,/)
  }

  test('after each step of a first installation: the last run ends with all of it, and what runs is written', async (t) => {
    host.write(ANSWERS_FILE, answersFile())
    let kills = 0
    for (let step = 1; ; step++) {
      const { output, isKilled } = await killedWhen((steps) => steps.length >= step)
      if (!isKilled) {
        assert.match(output, /Chancery is ready/)
        break
      }
      kills++
    }
    t.diagnostic(`${kills} times`)
    assert.ok(kills > 30, `${kills} steps`)
    await requireWhole(true)
  })

  test('changed answers, killed once the configuration is written: the next run starts the service with it', async () => {
    host.write(ANSWERS_FILE, answersFile('accounts: open\n'))
    const isWritten = (steps: readonly string[]) =>
      steps.some((one) => /^The service's configuration … changed/.test(one))
    const { output, isKilled } = await killedWhen(isWritten, '--replace')
    assert.ok(isKilled, output)
    assert.equal((await directory()).meta.externalAccountRequired, true, 'what runs is as it was')
    const again = await host.setUp(...UNATTENDED)
    assert.equal(again.code, 0, again.output)
    assert.match(again.output, /Start the service … changed/)
    assert.match(again.output, /Chancery is ready/)
    await requireWhole(false)
  })

  test("changed answers, killed once the signer's configuration is written: the next run starts the signer with it", async () => {
    host.write(ANSWERS_FILE, answersFile('accounts: open\ndomains: [corp.example, a.corp.example]\n'))
    const isWritten = (steps: readonly string[]) =>
      steps.some((one) => /^The signer's configuration … changed/.test(one))
    const { output, isKilled } = await killedWhen(isWritten, '--replace')
    assert.ok(isKilled, output)
    const again = await host.setUp(...UNATTENDED, '--replace')
    assert.equal(again.code, 0, again.output)
    assert.match(again.output, /Start the signer … changed/)
    await requireWhole(false)
  })

  test('a configuration that was kept and says otherwise than the answers is no end that is called ready', async () => {
    host.write(ANSWERS_FILE, answersFile('accounts: eab\ndomains: [corp.example, a.corp.example]\n'))
    const { code, output } = await host.setUp(...UNATTENDED)
    assert.equal(code, 1, output)
    assert.match(output, /not as answered.*externalAccountRequired false.*accounts: eab/s)
    assert.doesNotMatch(output, /Chancery is ready/)
  })
})

describe('killed in a step that makes keys', requirePrivateHost(), () => {
  const ROOT = '/root/chancery-root'
  const SIGNER = '/var/lib/chancery-signer'
  const half = { ['the key without a root']: 'key.pem', ['an empty root']: 'root.pem', ['half a root']: 'root.pem.new' }
  for (const [what, file] of Object.entries({ ...half, ['an empty certificate of the issuer']: 'issuer.pem' }))
    test(`${what} is left: another run puts it aside and comes to its end`, () =>
      withSetupHost(async (host) => {
        host.write(ANSWERS_FILE, answersFile())
        await host.must('sh', '-c', `mkdir -m 700 ${ROOT} && : > ${ROOT}/${file}`)
        const { code, output } = await host.setUp(...UNATTENDED)
        assert.equal(code, 0, output)
        assert.match(await host.must('ls', ROOT), new RegExp(`^${file}\\.unfinished$`, 'm'))
      }))

  const leftOfSigner = {
    'the key of the issuer without a request': ['ceremony', 'key.pem', ''],
    'a token of SoftHSM without a PIN': ['softhsm', 'so-pin', 'key: token\ntoken: softhsm\n'],
  } as const
  for (const [what, [folder, file, answers]] of Object.entries(leftOfSigner))
    test(`${what} is left: another run puts it aside and comes to its end`, () =>
      withSetupHost(async (host) => {
        host.write(ANSWERS_FILE, answersFile(answers))
        await host.must('useradd', '--system', '--home-dir', SIGNER, '--shell', '/usr/sbin/nologin', 'chancery-signer')
        const owned = ['-d', '-m', '700', '-o', 'chancery-signer', '-g', 'chancery-signer']
        await host.must('install', ...owned, SIGNER, `${SIGNER}/${folder}`)
        await host.must('runuser', '-u', 'chancery-signer', '--', 'touch', `${SIGNER}/${folder}/${file}`)
        const { code, output } = await host.setUp(...UNATTENDED)
        assert.equal(code, 0, output)
        assert.match(await host.must('ls', '-R', SIGNER), /\.unfinished$/m)
      }))
})
