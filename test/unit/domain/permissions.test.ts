import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ROLES, type Role } from '../../../src/domain/administrator.ts'
import {
  includesAuthority,
  lesserAuthority,
  lesserRole,
  mayRetag,
  PERMISSIONS,
  type Permission,
  rolesOf,
  scopeOf,
} from '../../../src/domain/permissions.ts'

const mayDo = (role: Role) => (Object.keys(PERMISSIONS) as Permission[]).filter((one) => rolesOf(one).includes(role))

describe('roles', () => {
  test('an administrator may do everything, and every role may end its session', () => {
    assert.deepEqual(mayDo('admin'), Object.keys(PERMISSIONS))
    assert.deepEqual(rolesOf('use_session'), ['admin', 'auditor', 'operator', 'registrar'])
  })

  test('an operator reads what an auditor reads', () => {
    for (const permission of mayDo('auditor')) assert.ok(mayDo('operator').includes(permission), permission)
  })

  test('the lesser of two roles is the one whose rights the other has, or none', () => {
    const lesser = {
      'admin admin': 'admin',
      'admin operator': 'operator',
      'admin registrar': 'registrar',
      'admin auditor': 'auditor',
      'operator operator': 'operator',
      'operator registrar': undefined,
      'operator auditor': 'auditor',
      'registrar registrar': 'registrar',
      'registrar auditor': undefined,
      'auditor auditor': 'auditor',
    }
    for (const [pair, expected] of Object.entries(lesser)) {
      const [one, other] = pair.split(' ') as [Role, Role]
      assert.deepEqual([lesserRole(one, other), lesserRole(other, one)], [expected, expected], pair)
    }
  })

  test('only a registrar has a scope, and without tags it is empty', () => {
    for (const role of ROLES)
      assert.deepEqual(scopeOf({ role, scope: ['a'] }), role === 'registrar' ? ['a'] : undefined, role)
    assert.deepEqual(scopeOf({ role: 'registrar' }), [])
  })

  test('an API token has the tags of its own, of its maker, or those that both have', () => {
    const registrar = (...scope: string[]) => ({ role: 'registrar', scope }) as const
    const admin = { role: 'admin', scope: [] } as const
    const cases = [
      [registrar('a', 'b'), admin, registrar('a', 'b')],
      [admin, registrar('a'), registrar('a')],
      [registrar('a', 'b'), registrar('b', 'c'), registrar('b')],
      [registrar('a'), registrar('b'), registrar()],
      [registrar('a'), { role: 'auditor', scope: [] } as const, undefined],
    ] as const
    for (const [token, maker, expected] of cases) assert.deepEqual(lesserAuthority(token, maker), expected)
  })

  test('an author keeps an authority while role and tags include it', () => {
    const registrar = (...scope: string[]) => ({ role: 'registrar', scope }) as const
    assert.ok(includesAuthority(registrar('a', 'b'), registrar('a')))
    assert.ok(!includesAuthority(registrar('a'), registrar('a', 'b')))
    assert.ok(includesAuthority({ role: 'admin', scope: [] }, registrar('a')))
    assert.ok(!includesAuthority(registrar('a'), { role: 'auditor', scope: [] }))
    assert.ok(!includesAuthority({ role: 'operator', scope: [] }, { role: 'admin', scope: [] }))
  })

  test('a registrar changes tags of its own alone, and keeps the row', () => {
    const cases: [before: string[], after: string[], expected: boolean][] = [
      [['a'], ['a', 'b'], true],
      [['a', 'b'], ['b'], true],
      [['a', 'x'], ['b', 'x'], true],
      [['a'], [], false],
      [['a', 'x'], ['x'], false],
      [['a', 'x'], ['a'], false],
      [['a'], ['a', 'x'], false],
      [['x'], ['x', 'a'], false],
    ]
    for (const [before, after, expected] of cases)
      assert.equal(mayRetag(['a', 'b'], before, after), expected, `${before} → ${after}`)
    assert.ok(mayRetag(undefined, ['x'], []))
  })
})
