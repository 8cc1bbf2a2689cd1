/** The URL table: what is advertised is what is recognised, for any configuration (RFC 8555 §6.4, §7.1). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  type FixedResource,
  NUMBERED_RESOURCES,
  type NumberedResource,
  type UrlSettings,
  Urls,
} from '../../../../src/shared/protocol/urls.ts'
import { forAll } from '../../../support/property-runs.ts'
import { words } from '../../../support/words.ts'

const segment = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,8}$/)
const FIXED = words`directory newNonce newAccount newOrder newAuthz revokeCert keyChange` as FixedResource[]

const settings: fc.Arbitrary<UrlSettings> = fc
  .record({
    host: fc.constantFrom('https://ca.example', 'http://127.0.0.1:8080', 'https://[2001:db8::1]'),
    externalPath: fc.constantFrom('', '/pki', '/a/b'),
    basePath: fc.constantFrom('', '/acme', '/acme/v2'),
    names: fc.uniqueArray(segment, { minLength: FIXED.length, maxLength: FIXED.length }),
  })
  .map(({ host, externalPath, basePath, names }) => ({
    externalUrl: host + externalPath,
    basePath,
    paths: Object.fromEntries(FIXED.map((resource, i) => [resource, `/${names[i]}`])) as UrlSettings['paths'],
  }))

const kebab = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
const PATHS = Object.fromEntries(FIXED.map((name) => [name, `/${kebab(name)}`])) as UrlSettings['paths']
const ID = '0190c4b2-0000-7000-8000-00000000abc0'

test('every advertised URL is recognised as the resource it names, with that very URL', () =>
  forAll(settings, fc.uuid(), (configured, id) => {
    const urls = new Urls(configured)
    for (const resource of FIXED) {
      const url = urls.fixed(resource)
      assert.deepEqual(urls.match(new URL(url).pathname), { resource, id: '', url })
    }
    for (const resource of Object.keys(NUMBERED_RESOURCES) as NumberedResource[]) {
      const url = urls.numbered(resource, id)
      assert.deepEqual(urls.match(new URL(url).pathname), { resource, id, url })
    }
  }))

test('a proxy may take the path of external_url away', () =>
  forAll(settings, (configured) => {
    const urls = new Urls(configured)
    const externalPath = new URL(configured.externalUrl).pathname.replace(/\/$/, '')
    const url = urls.fixed('newOrder')
    assert.equal(urls.match(new URL(url).pathname.slice(externalPath.length))?.url, url)
  }))

test('only the exact URL of an account is a kid', () =>
  forAll(settings, fc.uuid(), (configured, id) => {
    const urls = new Urls(configured)
    const kid = urls.numbered('account', id)
    assert.equal(urls.accountIdOf(kid), id)
    for (const other of [
      `${kid}/`,
      `${kid}?a`,
      kid.replace('http', 'ftp'),
      kid.toUpperCase(),
      new URL(kid).pathname,
      id,
      urls.numbered('accountOrders', id),
      urls.numbered('order', id),
    ])
      assert.equal(urls.accountIdOf(other), undefined, other)
  }))

test('no other path is a resource', () => {
  const urls = new Urls({
    externalUrl: 'https://ca.example',
    basePath: '/acme',
    paths: PATHS,
  })
  assert.equal(urls.match(`/acme/order/${ID}`)?.resource, 'order')
  const others = [
    '',
    '/',
    '/acme',
    '/acme/',
    '/directory',
    '/acme/directory/',
    '/acme//directory',
    '/Acme/directory',
    `/acme/order/${ID}/`,
    `/acme/order/${ID}/finalise`,
    `/acme/order/${ID.slice(1)}`,
    `/order/${ID}`,
    `/acme/acct/${ID}/order`,
  ]
  for (const path of others) assert.equal(urls.match(path), undefined, path)
})

test('any text is a resource or none, without failing', () => {
  const urls = new Urls({
    externalUrl: 'https://ca.example',
    basePath: '',
    paths: PATHS,
  })
  forAll(fc.string({ maxLength: 60 }), (text) => {
    urls.match(text)
    urls.accountIdOf(text)
  })
})

test('the roots are found at their path alone, below the base path', () =>
  forAll(settings, (configured) => {
    const urls = new Urls({ ...configured, paths: { ...configured.paths, roots: '/trust/roots.pem' } })
    const url = `${configured.externalUrl}${configured.basePath}/trust/roots.pem`
    assert.deepEqual(urls.match(new URL(url).pathname), { resource: 'roots', id: '', url })
    assert.equal(urls.match(`${new URL(url).pathname}/x`), undefined)
    assert.equal(new Urls(configured).match(new URL(url).pathname), undefined)
  }))

test('a CRL is found at its path, by the name of its issuer or without one', () =>
  forAll(settings, (configured) => {
    const urls = new Urls({ ...configured, paths: { ...configured.paths, crl: '/lists/crl' } })
    const root = configured.externalUrl + configured.basePath
    assert.equal(urls.crl('default'), `${root}/lists/crl/default`)
    for (const rest of ['', '/default', '/default/16-3']) {
      const url = `${root}/lists/crl${rest}`
      assert.deepEqual(urls.match(new URL(url).pathname), { resource: 'crl', id: rest.slice(1), url })
    }
    assert.equal(urls.match(new URL(`${root}/lists/crlx`).pathname), undefined)
    assert.equal(new Urls(configured).crl('default'), undefined)
  }))

test('a former server has its directory and its accounts at whole paths of the host', () => {
  const urls = new Urls({
    externalUrl: 'https://ca.example/pki',
    basePath: '/acme',
    paths: PATHS,
    directoryAliases: ['/acme/acme/directory'],
  })
  const url = 'https://ca.example/acme/acme/directory'
  assert.deepEqual(urls.match('/acme/acme/directory'), { resource: 'directory', id: '', url })
  assert.equal(urls.match('/pki/acme/acme/directory'), undefined)
  assert.equal(urls.account(ID, '/acme/acme/account/x'), 'https://ca.example/acme/acme/account/x')
  assert.equal(urls.account(ID), urls.numbered('account', ID))
  assert.equal(urls.pathOf('https://ca.example/acme/acme/account/x'), '/acme/acme/account/x')
  const elsewhere = ['https://ca.example.org/x', 'http://ca.example/x', 'x']
  const noPath = ['x'.repeat(255), 'a\0b', 'a b', 'a\u{e9}', 'a\n'].map((end) => `https://ca.example/${end}`)
  for (const other of [...elsewhere, ...noPath]) assert.equal(urls.pathOf(other), undefined, other)
})
