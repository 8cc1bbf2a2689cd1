/** The container image: what is in it, and that both programs need no more than it says. */

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { LOADED } from '../../deploy/build/tree.ts'
import { VERSION } from '../../src/shared/lib/program-files.ts'
import { makeAuthority } from '../signer/authority.ts'
import { buildImageIn, openTestImage, requireImages, type TestImage } from '../support/image.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { makeToken, SOFTHSM_LIBRARY } from '../support/softhsm.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const MOST_BYTES = 150_000_000
const SERVICE = 10001
const SIGNER = 10002
describe('the container image', requireImages(), () => {
  const work = temporaryFolder()
  let image: TestImage
  let files: { mode: string; owner: string; name: string; bytes: number }[]
  before(async () => {
    image = await openTestImage()
    const layer = path.join(work, 'layer')
    const manifest = JSON.parse(await image.containers.podman('image', 'inspect', image.name))[0]
    assert.equal(manifest.RootFS.Layers.length, 1)
    mkdirSync(layer)
    await mustRun('tar', ['-xf', image.archive, '-C', layer])
    const [blob] = (await mustRun('sh', ['-c', 'ls -S "$1"/blobs/sha256/*', 'sh', layer])).split('\n')
    const listed = await mustRun('tar', ['--numeric-owner', '-tvzf', String(blob)])
    files = listed
      .trim()
      .split('\n')
      .map((line) => {
        const [mode = '', owner = '', bytes, , , ...name] = line.split(/\s+/)
        return { mode, owner, bytes: Number(bytes), name: name.join(' ').replace(/ -> .*/, '') }
      })
  })
  after(async () => {
    await image?.close()
  })

  const run = (...command: string[]) => image.containers.run({ image: image.name, command, network: 'none' })

  test('has less than 150 MB', (t) => {
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
    t.diagnostic(
      `${(bytes / 1e6).toFixed(0)} MB unpacked, ${(statSync(image.archive).size / 1e6).toFixed(0)} MB packed`,
    )
    assert.ok(bytes < MOST_BYTES, `${bytes} bytes`)
  })

  test('says what it is, and starts the service as a user of its own', async () => {
    const [{ Config: config }] = JSON.parse(await image.containers.podman('image', 'inspect', image.name))
    assert.equal(image.name, `localhost/chancery:${VERSION}`)
    assert.deepEqual(
      [config.User, config.Cmd],
      [String(SERVICE), ['chancery', '-c', '/etc/chancery/config.yaml', 'serve']],
    )
    const labels = config.Labels
    assert.equal(labels['org.opencontainers.image.version'], VERSION)
    assert.match(labels['org.opencontainers.image.revision'], /^[0-9a-f]{40}$/)
    assert.equal(labels['org.opencontainers.image.licenses'], 'Apache-2.0')
  })

  test('has no shell, no setuid program, and nothing of a user but the folders that are written to', () => {
    const named = (pattern: RegExp) => files.filter(({ name }) => pattern.test(name)).map(({ name }) => name)
    assert.deepEqual(named(/\/(?:sh|bash|dash|busybox|perl|apt|dpkg|npm)$/), [])
    assert.deepEqual(
      files.filter(({ mode }) => /^.{3}s|^.{6}s/.test(mode)),
      [],
    )
    const owned = files
      .filter(({ owner }) => owner !== '0/0')
      .map(({ owner, name, mode }) => `${owner} ${mode} ${name}`)
    assert.deepEqual(owned.sort(), [
      `${SERVICE}/${SERVICE} drwx------ var/lib/chancery/`,
      `${SIGNER}/${SIGNER} drwx------ var/lib/chancery-signer/`,
      `${SIGNER}/${SIGNER} drwxr-x--- run/chancery/`,
    ])
    const open = files.filter(({ mode, name }) => mode[8] === 'w' && !mode.startsWith('l') && name !== 'tmp/')
    assert.deepEqual(open, [])
  })

  test('lists the packages of Debian in it, for scanners, with their licences', () => {
    const packages = files.flatMap(({ name }) => /^var\/lib\/dpkg\/status\.d\/(.+)$/.exec(name)?.[1] ?? [])
    for (const wanted of ['libc6', 'libssl3t64', 'libstdc++6', 'ca-certificates'])
      assert.ok(packages.includes(wanted), wanted)
    for (const licence of ['libc6', 'util-linux', 'libssl3t64', 'gcc-14-base', 'nodejs'])
      assert.ok(
        files.some(({ name }) => name === `usr/share/doc/${licence}/copyright`),
        licence,
      )
  })

  test('runs both programs without a capability and with nothing to write to', async () => {
    const service = await run('chancery', '--version')
    assert.deepEqual([service.code, service.output.trim()], [0, `chancery, ${VERSION}`])
    const signer = await run('chancery-signer', '--version')
    assert.deepEqual([signer.code, signer.output.trim()], [0, `chancery-signer, ${VERSION}`])
    const tried = await run('node', '-e', "try { fs.writeFileSync('/tmp/x', '') } catch (e) { console.log(e.code) }")
    assert.equal(tried.output.trim(), 'EROFS')
  })

  test('locks an audit chain', async () => {
    const { code, output } = await run('flock', '-n', '/opt/chancery', 'node', '-p', '"locked"')
    assert.deepEqual([code, output.trim()], [0, 'locked'])
  })

  test('loads every package that is not in the bundles, those with native libraries included', async () => {
    // As the bundles do: an import, which begins in the working folder.
    const loads = `for (const name of ${JSON.stringify(LOADED)}) await import(name)`
    const words = JSON.stringify(['--input-type=module', '-e', loads])
    const inFolder = `require('node:child_process').execFileSync('node', ${words}, { cwd: '/opt/chancery', stdio: 'inherit' })`
    const { code, output } = await run('node', '-e', inFolder)
    assert.equal(code, 0, output)
  })

  test('knows who is ready', async () => {
    const refused = await run('healthcheck', '/run/chancery/signer.sock')
    assert.deepEqual([refused.code, refused.output.includes('ENOENT')], [1, true])
    const silent = await run('healthcheck', 'http://127.0.0.1:8443/readyz')
    assert.deepEqual([silent.code, silent.output.includes('ECONNREFUSED')], [1, true])
  })

  test('is the same twice', {
    skip: process.env['CHANCERY_NIGHTLY'] === '1' ? false : 'CHANCERY_NIGHTLY=1 runs it',
  }, async () => {
    const second = await buildImageIn(path.join(work, 'second'))
    const digest = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex')
    assert.equal(digest(second), digest(image.archive))
  })

  test(
    'signs with a token whose PKCS #11 library is mounted',
    requireAll(requireCommand('softhsm2-util')),
    async () => {
      const token = makeToken()
      try {
        const authority = makeAuthority('P-256')
        token.importKey(authority.privateKey, 'issuing', '01')
        const folder = temporaryFolder()
        const key = { library: SOFTHSM_LIBRARY, token: 'ca', pin_file: token.pinFile, label: 'issuing' }
        const signer = {
          socket: '/run/chancery/signer/signer.sock',
          secret_file: `${folder}/secret`,
          audit: { file: `${folder}/audit.jsonl` },
          issuers: [{ id: 'default', certificate: `${folder}/issuer.pem`, key: { pkcs11: key } }],
        }
        writeFileSync(path.join(folder, 'signer.yaml'), JSON.stringify(signer))
        writeFileSync(path.join(folder, 'issuer.pem'), authority.certificatePem)
        writeFileSync(path.join(folder, 'secret'), randomBytes(32), { mode: 0o600 })
        chmodSync(folder, 0o755)
        await mustRun('chown', ['-R', String(SIGNER), token.folder, folder])
        const { code, output } = await image.containers.run({
          image: image.name,
          command: ['chancery-signer', '--validate-only', '-c', `${folder}/signer.yaml`],
          user: String(SIGNER),
          env: token.env,
          mounts: [
            { from: SOFTHSM_LIBRARY, to: SOFTHSM_LIBRARY },
            { from: folder, to: folder, isWritable: true },
            { from: token.folder, to: token.folder, isWritable: true },
          ],
          network: 'none',
        })
        assert.equal(code, 0, output)
      } finally {
        token.remove()
      }
    },
  )
})
