/**
 * What is done with each client's blocks of docs/clients.md, in which order. The page says of the others why they are not run.
 * A credential is made for each client, and is used up in the end.
 */

import type { RequiredCommand } from '../support/requirements.ts'

export interface Story {
  client: string
  needs: readonly RequiredCommand[]
  /** Blocks by name, in the order of a reader; each is a file that is written, or commands that are run. */
  steps: readonly Step[]
}

export interface Step {
  block: string
  /** What is there afterwards: a chain in this file, for these names. */
  gives?: { file: string; names: readonly string[]; isNew?: true }
  /** How often the hook has run by then. */
  deployed?: number
  /** A server that is started, and serves a certificate for www.corp.example soon. */
  serves?: readonly [program: string, ...args: string[]]
}

const WWW = ['www.corp.example']
const WILDCARD = ['*.corp.example']
export const ADDRESS = '192.0.2.10'

/** What several clients rely on; written and run once, before all. */
export const COMMON = ['/usr/local/sbin/use-certificate', '/usr/local/sbin/acme-txt'] as const

export const STORIES: readonly Story[] = [
  {
    client: 'certbot',
    needs: ['certbot'],
    steps: [
      {
        block: 'certbot',
        gives: { file: '/etc/letsencrypt/live/www.corp.example/fullchain.pem', names: WWW },
        deployed: 1,
      },
      {
        block: 'certbot-renew',
        gives: { file: '/etc/letsencrypt/live/www.corp.example/fullchain.pem', names: WWW, isNew: true },
        deployed: 2,
      },
      {
        block: 'certbot-wildcard',
        gives: { file: '/etc/letsencrypt/live/corp-wildcard/fullchain.pem', names: WILDCARD },
      },
    ],
  },
  {
    client: 'lego',
    needs: ['lego'],
    steps: [
      { block: 'lego', gives: { file: '/var/lib/lego/certificates/www.corp.example.crt', names: WWW }, deployed: 1 },
      {
        block: 'lego-renew',
        gives: { file: '/var/lib/lego/certificates/www.corp.example.crt', names: WWW, isNew: true },
        deployed: 2,
      },
      {
        block: 'lego-tls-alpn',
        gives: { file: '/var/lib/lego/certificates/www.corp.example.crt', names: WWW, isNew: true },
      },
      { block: 'lego-wildcard', gives: { file: '/var/lib/lego/certificates/_.corp.example.crt', names: WILDCARD } },
    ],
  },
  {
    client: 'dehydrated',
    needs: ['dehydrated', 'nginx'],
    steps: [
      { block: '/etc/nginx/conf.d/acme-challenge.conf', serves: ['nginx', '-g', 'daemon off;'] },
      { block: '/etc/dehydrated/conf.d/corp.sh' },
      { block: '/etc/dehydrated/domains.txt' },
      { block: '/etc/dehydrated/hook.sh' },
      {
        block: 'dehydrated',
        gives: { file: '/var/lib/dehydrated/certs/www.corp.example/fullchain.pem', names: WWW },
        deployed: 1,
      },
      {
        block: 'dehydrated-renew',
        gives: { file: '/var/lib/dehydrated/certs/www.corp.example/fullchain.pem', names: WWW, isNew: true },
        deployed: 2,
      },
      { block: '/etc/dehydrated/dns-hook.sh' },
      {
        block: 'dehydrated-wildcard',
        gives: { file: '/var/lib/dehydrated/certs/corp-wildcard/fullchain.pem', names: WILDCARD },
      },
    ],
  },
  {
    client: 'uacme',
    needs: ['uacme', 'nginx'],
    steps: [
      { block: '/etc/nginx/conf.d/acme-challenge.conf', serves: ['nginx', '-g', 'daemon off;'] },
      { block: 'uacme', gives: { file: '/etc/ssl/uacme/www.corp.example/cert.pem', names: WWW }, deployed: 1 },
      {
        block: 'uacme-renew',
        gives: { file: '/etc/ssl/uacme/www.corp.example/cert.pem', names: WWW, isNew: true },
        deployed: 2,
      },
      { block: 'uacme-address', gives: { file: `/etc/ssl/uacme/${ADDRESS}/cert.pem`, names: [ADDRESS] } },
    ],
  },
  {
    client: 'acme-tiny',
    needs: ['acme-tiny', 'uacme', 'nginx'],
    steps: [
      { block: '/etc/nginx/conf.d/acme-challenge.conf', serves: ['nginx', '-g', 'daemon off;'] },
      { block: 'acme-tiny-account' },
      { block: 'acme-tiny-binding' },
      { block: 'acme-tiny-request' },
      { block: 'acme-tiny', gives: { file: '/etc/ssl/www.corp.example.pem', names: WWW }, deployed: 1 },
      { block: 'acme-tiny', gives: { file: '/etc/ssl/www.corp.example.pem', names: WWW, isNew: true }, deployed: 2 },
    ],
  },
  {
    client: 'Caddy',
    needs: ['caddy'],
    steps: [{ block: '/etc/caddy/Caddyfile', serves: ['caddy', 'run', '--config', '/etc/caddy/Caddyfile'] }],
  },
  {
    client: 'Apache mod_md',
    needs: ['apache2'],
    steps: [
      { block: '/etc/apache2/acme-eab.json' },
      {
        block: '/etc/apache2/conf-available/acme.conf',
        serves: ['apache2', '-f', '/etc/apache2/of-the-test.conf', '-DFOREGROUND'],
      },
    ],
  },
]
