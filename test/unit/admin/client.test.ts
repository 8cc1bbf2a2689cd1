/** URLs of the client of the Admin API. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AdminClient, type Routes } from '../../../src/admin/client.ts'

const routes = { listUsers: ['GET', '/users'] } as unknown as Routes

/** Asks for a list and its next page. @returns the URLs that were asked */
async function asked(baseUrl: string, link: string): Promise<string[]> {
  const urls: string[] = []
  const client = new AdminClient({
    routes,
    baseUrl,
    token: () => undefined,
    async fetch(url) {
      urls.push(String(url))
      return new Response('[]', { headers: { 'content-type': 'application/json', link: `<${link}>; rel="next"` } })
    },
  })
  const { next } = await client.page('listUsers', {})
  await client.follow('listUsers', next ?? '')
  return urls
}

for (const base of ['https://ca.example/api', 'https://ca.example/api/', 'https://ca.example', 'https://ca.example/'])
  test(`the next page of ${base} is below it`, async () => {
    const root = base.replace(/\/$/, '')
    const urls = await asked(base, `${root}/users?cursor=x`)
    assert.deepEqual(urls, [`${root}/users`, `${root}/users?cursor=x`])
  })

test('a service that calls itself otherwise is asked where it was asked before', async () => {
  const urls = await asked('http://127.0.0.1:8444/api/', 'https://ca.example/chancery/api/users?cursor=x')
  assert.equal(urls[1], 'http://127.0.0.1:8444/api/users?cursor=x')
})

test('a page of a proxy is no export', async () => {
  const client = new AdminClient({
    routes: { exportAuditLog: ['GET', '/audit-log/export'] } as unknown as Routes,
    baseUrl: 'https://ca.example/api',
    token: () => undefined,
    fetch: async () => new Response('<html>sign in</html>', { headers: { 'content-type': 'text/html' } }),
  })
  await assert.rejects(client.lines('exportAuditLog', {}).next(), /what answered is not this service/)
})
