import fc from 'fast-check'
import { expect, it } from 'vitest'
import { limitsInForce, plantsAllowed } from '../../src/access/limits-in-force.ts'
import { type Limits, limitNames } from '../../src/limit-values.ts'

const limits: fc.Arbitrary<Limits> = fc.dictionary(fc.constantFrom(...limitNames), fc.nat({ max: 9 }))

it("a key's own limit holds beside its account's, which replaces the limit of the settings", () => {
  fc.assert(
    fc.property(limits, limits, limits, fc.constantFrom(...limitNames), (own, ofAccount, settings, name) => {
      const key = { limits: own, maker: null, account: { limits: ofAccount } }
      const held = name in ofAccount ? ofAccount[name] : settings[name]
      expect(limitsInForce(key, settings, name)).toStrictEqual({ own: own[name], ofMaker: undefined, ofAccount: held })
      // The lower of both limits holds.
      const both = [own.plants, ofAccount.plants ?? settings.plants].filter((limit) => limit !== undefined)
      expect(plantsAllowed(key, settings)).toBe(both.sort((a, b) => a - b)[0])
    }),
  )
})
