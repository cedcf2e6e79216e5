import { describe, expect, test } from 'vitest'
import { makeRequestId } from '../../src/http/request-log.ts'

describe('request ids', () => {
  test('are unique', () => {
    const ids = Array.from({ length: 5000 }, makeRequestId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const id of ids) expect(id).toMatch(/^req_[0-9a-f]{32}$/)
  })

  test('are random, so that two ids do not show how many requests came between them', () => {
    const ids = Array.from({ length: 2000 }, () => makeRequestId().slice(4))
    for (let place = 0; place < 32; place++) {
      const digits = new Set(ids.map((id) => id[place]))
      expect([place, digits.size]).toEqual([place, 16])
    }
    const rising = ids.filter((id, index) => index > 0 && id > (ids[index - 1] ?? '')).length
    expect(rising).toBeGreaterThan(800)
    expect(rising).toBeLessThan(1200)
  })
})
