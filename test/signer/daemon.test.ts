import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import { Readable } from 'node:stream'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { CaError } from '../../src/ca/backend.ts'
import { assertPortFree } from '../../src/http/start-checks.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { each } from '../support/each.ts'
import { freePort } from '../support/free-port.ts'
import { until } from '../support/until.ts'
import { type AuthorityKind, leafTbs, makeAuthority, type SignerFiles } from './authority.ts'
import { SIGNER_PROGRAM, startDaemon, type TestSigner, useSigner, withSigner } from './daemon.ts'
import { rawExtension, rawTbs } from './raw-tbs.ts'
import { rawTbsList } from './raw-tbs-list.ts'

const run = promisify(execFile)
const program = (...args: string[]) => run(process.execPath, [SIGNER_PROGRAM, ...args])
const KINDS: readonly AuthorityKind[] = ['P-256', 'P-384', 'P-521', 'Ed25519', 'RSA']
const timeoutMs = 60_000

// Node's own answers: a debugger that every user of the machine may connect to, and the end of the process.
test('SIGUSR1 and SIGUSR2 open no debugger and end nothing; a log line names each', async () => {
  await withSigner(
    async ({ files }) => {
      const port = await freePort()
      const daemon = await startDaemon(files.config, [`--inspect-port=${port}`])
      for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) {
        daemon.process.kill(signal)
        await until(signal, () => daemon.output().includes(`"message":"${signal} is ignored; SIGHUP`))
      }
      await assertPortFree('127.0.0.1', port)
      assert.equal(daemon.output().match(/is ignored/g)?.length, 2)
      assert.equal(await daemon.stop(), 0)
    },
    { default: makeAuthority() },
  )
})

describe('a running signer', () => {
  const authorities = Object.fromEntries(KINDS.map((kind) => [kind, makeAuthority(kind)]))
  const signer = useSigner(authorities, { policyYaml: '{ excluded: { dns: [vault.example.org] } }' })
  const sign = (kind: AuthorityKind, tbs: Buffer, requester = 'x') =>
    signer.backend.signCertificate(kind, tbs, { timeoutMs, requester })

  for (const kind of KINDS) {
    test(`signs certificates with ${kind} that verify with the issuer`, async () => {
      const authority = authorities[kind]!
      const tbs = leafTbs(authority, { dnsNames: [`${kind.toLowerCase()}.example.org`] })
      const certificate = await sign(kind, tbs)
      assert.deepEqual(parseCertificate(certificate).tbsDer, tbs)
      const issuer = new X509Certificate(authority.certificate)
      assert.ok(new X509Certificate(certificate).verify(issuer.publicKey))
    })
  }

  test('describes its issuers as issuance needs them', async () => {
    await signer.client.call('health', {}, { timeoutMs })
    const issuers = signer.backend.issuers()
    assert.deepEqual(each(issuers, 'id'), KINDS)
    for (const issuer of issuers) {
      const authority = authorities[issuer.id]!
      assert.deepEqual(issuer.certificate, authority.certificate)
      assert.deepEqual(issuer.nameDer, authority.nameDer)
      assert.deepEqual(issuer.keyIdentifier, authority.keyIdentifier)
      assert.equal(issuer.signatureAlgorithm, authority.algorithm)
      assert.deepEqual(issuer.notAfter, authority.notAfter)
    }
  })

  test('makes a test signature with every key', async () => {
    const results = await signer.backend.testSign({ timeoutMs })
    assert.deepEqual(each(results, 'issuer'), KINDS)
  })

  test('refuses a CA certificate for good, with a sentence, and counts it', async () => {
    const caTbs = rawTbs(authorities['P-256']!, {
      extensions: { basicConstraints: rawExtension('2.5.29.19', true, Buffer.from('30030101ff', 'hex')) },
    })
    const refusals = async () => (await signer.client.call('health', {}, { timeoutMs })).meta.refusals
    const before = await refusals()
    await assert.rejects(sign('P-256', caTbs, 'order 2'), (error) => {
      assert.ok(error instanceof CaError)
      assert.equal(error.retryable, false)
      assert.match(error.message, /CA certificates are not signed here/)
      return true
    })
    assert.equal(await refusals(), before + 1)
  })

  test('says of a name that its issuer excludes that it is the name, and which', async () => {
    const tbs = leafTbs(authorities['P-256']!, { dnsNames: ['a.vault.example.org'] })
    await assert.rejects(sign('P-256', tbs, 'order 3'), (error) => {
      assert.ok(error instanceof CaError)
      assert.equal(error.retryable, false)
      assert.equal(error.nameRefusal, 'a.vault.example.org reaches into an excluded subtree')
      return true
    })
  })

  test('refuses bytes that are no TBSCertificate, digests included, and unknown issuers', async () => {
    const ask = (issuer: string, payload: Buffer) =>
      signer.client.call('signCertificate', { issuer, requester: 'x' }, { timeoutMs, payload })
    for (const payload of [
      Buffer.alloc(0),
      Buffer.alloc(32, 7),
      Buffer.from('hello'),
      authorities['P-256']!.certificate,
    ]) {
      await assert.rejects(ask('P-256', payload), { name: 'SignerRefusal' })
    }
    await assert.rejects(ask('nobody', leafTbs(authorities['P-256']!)), /no issuer nobody/)
  })

  test('writes a line for every signature: who, what, for which names', async () => {
    const tbs = leafTbs(authorities['P-256']!, { dnsNames: ['audited.example.org'], ipAddresses: ['10.1.2.3'] })
    await sign('P-256', tbs, 'order 77')
    const line = readFileSync(signer.files.auditFile, 'utf8').trimEnd().split('\n').at(-1)!
    const { issuer, requester, names, serial } = JSON.parse(line) as Record<string, unknown>
    assert.deepEqual([issuer, requester, names], ['P-256', 'order 77', ['dns:audited.example.org', 'ip:10.1.2.3']])
    assert.match(String(serial), /^40[0-9a-f]{30}$/)
  })

  test('syncs 200 concurrent signatures in far fewer groups', async () => {
    const health = async () => (await signer.client.call('health', {}, { timeoutMs })).meta
    const before = await health()
    const requests = Array.from({ length: 200 }, () => leafTbs(authorities['P-256']!))
    await Promise.all(requests.map((tbs) => sign('P-256', tbs)))
    const now = await health()
    assert.equal(now.signatures - before.signatures, 200)
    assert.ok(now.auditSyncs - before.auditSyncs <= 50, `${now.auditSyncs - before.auditSyncs} syncs`)
  })

  test('keeps its socket to owner and group', () => assert.equal(statSync(signer.files.socket).mode & 0o777, 0o660))

  test('is not replaced by a second daemon on the same socket', async () => {
    await assert.rejects(startDaemon(signer.files.config), /another signer listens/)
    await signer.backend.testSign({ timeoutMs })
  })
})

describe('starting and stopping', () => {
  const authority = makeAuthority()
  const withFiles = (work: (files: SignerFiles, signer: TestSigner) => Promise<void>, yaml = '', policyYaml = '{}') =>
    withSigner((signer) => work(signer.files, signer), { default: authority }, { yaml, policyYaml })
  const signBy = ({ backend }: TestSigner, tbs = leafTbs(authority)) =>
    backend.signCertificate('default', tbs, { timeoutMs, requester: 'x' })

  test('SIGTERM finishes what is in flight, removes the socket and leaves a chain that verifies', () =>
    withFiles(async (files, signer) => {
      await signer.launch()
      const { client } = signer
      await client.call('health', {}, { timeoutMs })
      const params = { issuer: 'default', requester: 'drain' }
      const requests = Array.from({ length: 100 }, () => leafTbs(authority))
      const answers = requests.map((payload) => client.call('signCertificate', params, { timeoutMs, payload }))
      await answers[0]
      const code = signer.daemon.stop('SIGTERM')
      const outcomes = await Promise.allSettled(answers)
      assert.equal(await code, 0)
      assert.ok(!existsSync(files.socket))
      const signed = outcomes.filter(({ status }) => status === 'fulfilled').length
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected') assert.equal((outcome.reason as Error).name, 'SignerUnavailable')
      }
      const verdict = await verifyAuditChain(files.auditFile)
      assert.deepEqual(verdict.ok && verdict.signatures, signed)
    }))

  test('its last lines reach a pipe that is full and then read', () =>
    withFiles(async (files) => {
      writeFileSync(files.config, readFileSync(files.config, 'utf8').replace('level: warn', 'level: info'))
      const pipe = path.join(files.folder, 'pipe')
      await run('mkfifo', [pipe])
      // The child's end is one that blocks until the child says otherwise, so this process reads by an end of its own.
      const end = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK)
      const fd = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
      const piece = Buffer.alloc(4096, '\n')
      assert.throws(() => {
        for (;;) writeSync(fd, piece)
      }, /EAGAIN/)
      const child = spawn(process.execPath, [SIGNER_PROGRAM, '-c', files.config], { stdio: ['ignore', fd, 'inherit'] })
      closeSync(fd)
      const ended = once(child, 'exit')
      await until('its socket', () => existsSync(files.socket))
      child.kill('SIGTERM')
      await sleep(300)
      let said = ''
      await until('the end of the pipe', () => {
        try {
          for (let bytes = 1; bytes > 0; said += piece.toString('utf8', 0, bytes)) bytes = readSync(end, piece)
          return true
        } catch {
          return false
        }
      })
      closeSync(end)
      assert.deepEqual(await ended, [0, null])
      assert.match(said, /"signer ready".*"signer stopped"/s)
    }))

  test('SIGINT stops an idle daemon with open connections at once', () =>
    withFiles(async (_files, signer) => {
      await signer.launch()
      const { client } = signer
      await client.call('health', {}, { timeoutMs })
      assert.equal(await signer.daemon.stop('SIGINT'), 0)
    }))

  test('with --with-parent the end of standard input stops it like a signal', () =>
    withFiles(async (files) => {
      const daemon = await startDaemon(files.config)
      const ended = once(daemon.process, 'close')
      daemon.process.stdin!.end()
      assert.deepEqual(await ended, [0, null])
      assert.ok(!existsSync(files.socket))
    }))

  test('a socket that a dead daemon left is taken over', () =>
    withFiles(async (files, signer) => {
      await signer.launch()
      assert.equal(await signer.daemon.stop('SIGKILL'), 'SIGKILL')
      assert.ok(existsSync(files.socket))
      await signer.launch()
      assert.equal(await signer.daemon.stop(), 0)
    }))

  test('a file that is no socket is left alone', () =>
    withFiles(async (files) => {
      writeFileSync(files.socket, 'precious')
      await assert.rejects(startDaemon(files.config), /is not a socket/)
      assert.equal(readFileSync(files.socket, 'utf8'), 'precious')
    }))

  test("somebody else's socket is left alone", () =>
    withFiles(async (files) => {
      const server = createServer().listen(files.socket)
      await assert.rejects(startDaemon(files.config), /another signer listens/)
      await new Promise((resolve) => server.close(resolve))
    }))

  const write = (files: SignerFiles, name: string, text: string | Buffer) =>
    writeFileSync(path.join(files.folder, name), text)
  const close = (files: SignerFiles, mode: number, name = '') => chmodSync(path.join(files.folder, name), mode)
  const stranger = makeAuthority()
  const faults: Record<string, [prepare: (files: SignerFiles) => void, sentence: RegExp]> = {
    'a socket folder open to others': [(files) => close(files, 0o755), /too open for the signer's socket/],
    'a secret open to others': [(files) => close(files, 0o644, 'secret'), /too open for a secret/],
    'no secret': [
      (files) => rmSync(path.join(files.folder, 'secret')),
      /secret: cannot be read: ENOENT, there is no such file/,
    ],
    'a short secret': [(files) => write(files, 'secret', 'short'), /too few/],
    'a key open to others': [(files) => close(files, 0o640, 'default.key'), /lets others read it/],
    "another issuer's key": [
      (files) => write(files, 'default.key', stranger.privateKey.export({ format: 'pem', type: 'pkcs8' })),
      /is not the key of/,
    ],
    'an issuer that is no CA': [
      (files) => write(files, 'default.pem', makeAuthority('P-256', { isCa: false }).certificatePem),
      /not a CA certificate/,
    ],
    'a chain that does not link': [
      (files) => write(files, 'default.pem', authority.certificatePem + stranger.certificatePem),
      /not signed by certificate 2/,
    ],
    'an audit file that is something else': [
      (files) => writeFileSync(files.auditFile, 'x'.repeat(400_000)),
      /not an audit chain/,
    ],
  }
  for (const [what, [prepare, sentence]] of Object.entries(faults)) {
    test(`does not start with ${what}`, () =>
      withFiles(async (files) => {
        prepare(files)
        await assert.rejects(startDaemon(files.config), sentence)
        assert.ok(!existsSync(files.socket))
      }))
  }

  test('a second daemon on the chain with another socket does not start, and the first goes on', () =>
    withSigner(
      async (signer) => {
        await signer.launch()
        const other = signer.at('other.yaml')
        writeFileSync(other, readFileSync(signer.files.config, 'utf8').replace('signer.sock', 'other.sock'))
        await assert.rejects(
          program('-c', other),
          /another signer works on the audit chain .*; a second one would stop both/,
        )
        assert.equal((await signer.backend.health({ timeoutMs })).signing, true)
        // What ends without a word leaves no lock.
        await signer.restart('SIGKILL')
      },
      { default: makeAuthority() },
    ))

  test('a torn last audit line is kept aside at the start', () =>
    withFiles(async (files) => {
      writeFileSync(files.auditFile, '{"seq":1,"ti')
      const daemon = await startDaemon(files.config)
      assert.match(daemon.output(), /kept aside/)
      await daemon.stop()
      assert.equal(readFileSync(`${files.auditFile}.torn-1`, 'utf8'), '{"seq":1,"ti')
    }))

  test('a daemon whose audit file was touched stops signing, says so, and starts again once the file is whole', () =>
    withFiles(async (files, signer) => {
      await signer.launch()
      const sign = () => signBy(signer)
      await sign()
      const whole = readFileSync(files.auditFile)
      appendFileSync(files.auditFile, '{"seq":2}\n')
      for (let n = 0; n < 2; n++) {
        await assert.rejects(sign(), (error) => error instanceof CaError && error.retryable)
      }
      const { signing, lastError, signatures } = (await signer.client.call('health', {}, { timeoutMs })).meta
      assert.deepEqual([signing, signatures], [false, 1])
      assert.match(lastError!.message, /audit chain stopped/)
      // Its last lines are here for certain when it has ended.
      await signer.daemon.stop()
      assert.match(
        signer.daemon.output(),
        /somebody else writes to it.*nothing is signed until the signer is started again/,
      )

      writeFileSync(files.auditFile, whole)
      await signer.launch()
      await sign()
      await signer.daemon.stop()
      assert.ok((await verifyAuditChain(files.auditFile)).ok)
    }))

  test('an issuer with a rate gives out no more than that, and says that later is fine', () =>
    withFiles(
      async (_files, signer) => {
        await signer.launch()
        const startedAt = performance.now()
        const outcomes = await Promise.allSettled(Array.from({ length: 30 }, () => signBy(signer)))
        const seconds = (performance.now() - startedAt) / 1000
        const signed = outcomes.filter(({ status }) => status === 'fulfilled').length
        // A second's worth at once, and what the time until the last answer earns.
        assert.ok(signed >= 5 && signed <= 5 + 5 * seconds, `${signed} signed in ${seconds} s`)
        for (const outcome of outcomes)
          if (outcome.status === 'rejected') assert.equal((outcome.reason as CaError).retryable, true)
      },
      '',
      '{ max_signatures_per_second: 5 }',
    ))

  test('an issuer that signs as many certificates as it may still signs lists, and passes for one that can sign', () =>
    withFiles(
      async (_files, signer) => {
        await signer.launch()
        const first = rawTbsList(authority, { number: 1n })
        const tbs = { signatureAlgorithm: authority.algorithm, length: first.length, pieces: Readable.from([first]) }
        const many = Promise.allSettled(Array.from({ length: 30 }, () => signBy(signer)))
        await signer.backend.testSign({ timeoutMs })
        await signer.backend.signCrl('default', tbs, { timeoutMs, requester: 'x' })
        assert.ok((await many).some(({ status }) => status === 'rejected'))
      },
      '',
      '{ max_signatures_per_second: 2 }',
    ))

  test('a certificate refused for the rate leaves its serial number free', () =>
    withFiles(
      async (_files, signer) => {
        await signer.launch()
        const serialNumber = Buffer.from('4123456789abcdef0123456789abcdef', 'hex')
        const other = leafTbs(authority, { serialNumber, dnsNames: ['other.example.org'] })
        const many = Array.from({ length: 30 }, () => signBy(signer))
        const outcomes = await Promise.allSettled([...many, signBy(signer, leafTbs(authority, { serialNumber }))])
        assert.equal(outcomes.at(-1)?.status, 'rejected')
        await until('a signature', () =>
          signBy(signer, other).catch((error: CaError) => {
            assert.ok(error.retryable, error.message)
            return false
          }),
        )
      },
      '',
      '{ max_signatures_per_second: 1 }',
    ))

  test('names the key that leads to a folder that is not there', () =>
    withFiles(async (files) => {
      const text = readFileSync(files.config, 'utf8')
      writeFileSync(files.config, text.replace('file: audit.jsonl', 'file: nodir/audit.jsonl'))
      await assert.rejects(startDaemon(files.config), /audit\.file: there is no folder \S+nodir; make it/)
      assert.ok(!existsSync(files.socket))
      writeFileSync(files.config, text.replace('secret_file: secret', 'secret_file: nodir/secret'))
      await assert.rejects(
        startDaemon(files.config),
        /secret_file: \S+nodir\/secret: cannot be read: ENOENT, there is no such file/,
      )
    }))

  test('a start that fails at the socket leaves no audit file behind', () =>
    withFiles(async (files) => {
      chmodSync(files.folder, 0o755)
      await assert.rejects(startDaemon(files.config), /socket: \S+: mode 755 is too open for the signer's socket/)
      assert.ok(!existsSync(files.auditFile))
    }))

  test('--validate-only checks keys and certificates and touches neither socket nor audit file', () =>
    withFiles(async (files) => {
      const { stdout } = await program('--validate-only', '-c', files.config)
      assert.match(stdout, /issuer default: SHA256withECDSA, file key/)
      assert.ok(!existsSync(files.socket) && !existsSync(files.auditFile))
    }))

  test('--validate-only says what would keep the start from its socket, its audit chain and its CRL numbers', () =>
    withFiles(async (files) => {
      const complaint = (expected: RegExp) =>
        assert.rejects(program('--validate-only', '-c', files.config), (error: { code: number; stderr: string }) => {
          assert.equal(error.code, 1)
          assert.match(error.stderr, expected)
          return true
        })
      chmodSync(files.folder, 0o755)
      await complaint(/socket: \S+: mode 755 is too open for the signer's socket/)
      chmodSync(files.folder, 0o750)
      writeFileSync(`${files.auditFile}.crl-numbers`, 'no numbers')
      await complaint(/audit\.file: \S+crl-numbers/)
    }))

  test('--validate-only names a folder that the start will need, since systemd may make it', () =>
    withFiles(async (files) => {
      const yaml = readFileSync(files.config, 'utf8')
      writeFileSync(files.config, yaml.replace('file: audit.jsonl', 'file: later/audit.jsonl'))
      const { stdout } = await program('--validate-only', '-c', files.config)
      assert.match(stdout, /audit\.file: \S+later is not there yet; the start needs it/)
      assert.ok(!existsSync(path.join(files.folder, 'later')))
    }))

  test('a wrong configuration prints every error with its line and exits 1', () =>
    withFiles(async (files) => {
      await assert.rejects(program('-c', files.config), (error: { code: number; stderr: string }) => {
        assert.equal(error.code, 1)
        assert.match(error.stderr, /signer\.yaml: limits\.connections \(line 5\): /)
        assert.match(error.stderr, /signer\.yaml: limits\.nonsense \(line 5\): unknown key/)
        return true
      })
    }, 'limits: { connections: 0, nonsense: 1 }\n'))

  test('audit export into a reader that has gone, such as head, ends without a word', () =>
    withFiles(async (files, signer) => {
      await signer.launch()
      await signBy(signer)
      writeFileSync(files.auditFile, readFileSync(files.auditFile, 'utf8').repeat(3_000))
      const command = '{ "$@"; echo $? >&2; } | head -n 1'
      const words = ['-c', command, 'sh', process.execPath, SIGNER_PROGRAM, 'audit', 'export', files.auditFile]
      assert.deepEqual((await run('/bin/sh', words)).stderr, '0\n')
    }))

  test('and reads no further than that', () =>
    withFiles(async (files, signer) => {
      await signer.launch()
      await signBy(signer)
      const text = readFileSync(files.auditFile, 'utf8')
      writeFileSync(files.auditFile, text.repeat(3_000))
      appendFileSync(files.auditFile, 'no line of a chain\n')
      const toEnd = run(process.execPath, [SIGNER_PROGRAM, 'audit', 'export', files.auditFile], {
        maxBuffer: 64 * 2 ** 20,
      })
      await assert.rejects(toEnd, /line \d+/)
      const words = ['-c', '{ "$@"; echo $? >&2; } | head -n 1', 'sh', process.execPath, SIGNER_PROGRAM]
      assert.deepEqual((await run('/bin/sh', [...words, 'audit', 'export', files.auditFile])).stderr, '0\n')
    }))

  test('audit verify tells a good chain from a changed one', () =>
    withFiles(async (files, signer) => {
      await signer.launch()
      for (let n = 0; n < 3; n++) await signer.backend.testSign({ timeoutMs })
      await signer.daemon.stop()
      assert.match(
        (await program('audit', 'verify', files.auditFile)).stdout,
        /3 lines, 3 signatures\nhead [0-9a-f]{64}\nnot seen: lines after 3/,
      )
      writeFileSync(
        files.auditFile,
        readFileSync(files.auditFile, 'utf8').replace('"requester":"', '"requester":"not '),
      )
      await assert.rejects(program('audit', 'verify', files.auditFile), /line 2: hash of the line before differs/)
    }))

  test('--version and --help answer without a configuration', async () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
    assert.match((await program('--version')).stdout, new RegExp(version.replaceAll('.', '\\.')))
    assert.match((await program('--help')).stdout, /Exit codes[\s\S]*audit verify/)
    await assert.rejects(program('--nonsense'), /unknown option: --nonsense/)
    await assert.rejects(program('audit'), /audit needs one more word; see chancery-signer audit --help/)
  })
})
