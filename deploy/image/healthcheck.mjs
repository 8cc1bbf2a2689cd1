#!/usr/bin/node
/**
 * Whether a container is ready, by its exit code: `healthcheck http://127.0.0.1:8443/readyz`, or
 * `healthcheck /run/chancery/signer/signer.sock`, which somebody has to listen on.
 *
 * The image has neither a shell nor curl.
 */

import http from 'node:http'
import https from 'node:https'
import { connect } from 'node:net'

const TIMEOUT_MS = 4_000

async function listens(socket) {
  await new Promise((resolve, reject) => connect(socket).on('connect', resolve).on('error', reject))
  return 'it listens'
}

/** A certificate of the service does not name the loopback interface. */
async function answers(url) {
  const { get } = url.startsWith('https:') ? https : http
  const { statusCode } = await new Promise((resolve, reject) =>
    get(url, { rejectUnauthorized: false }, resolve).on('error', reject),
  )
  if (statusCode !== 200) throw new Error(`status ${statusCode}`)
  return 'status 200'
}

setTimeout(() => end(1, `no answer within ${TIMEOUT_MS / 1000} seconds`), TIMEOUT_MS)

function end(code, sentence) {
  console.log(sentence)
  process.exit(code)
}

const [place = ''] = process.argv.slice(2)
await (place.startsWith('/') ? listens(place) : answers(place)).then(
  (sentence) => end(0, sentence),
  (error) => end(1, `${place}: ${error.message}`),
)
