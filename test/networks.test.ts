import { describe, expect, it } from 'vitest'
import { readConfig } from '../src/config.ts'
import { networkOf, parseNetworks, readAddress } from '../src/networks.ts'

it.each([
  ['192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:db8:0:0:ffff::', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['fe80::', 'fe80:0:0:0::/64'],
])('the network of the caller %s is %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})

describe('TRUSTED_PROXIES', () => {
  it.each([
    ['10.0.0.0/8', ['10.0.0.1', '10.255.255.255'], ['11.0.0.0', '9.255.255.255', '::1']],
    ['192.0.2.7', ['192.0.2.7'], ['192.0.2.6', '192.0.2.8']],
    ['fd00::/8,::1', ['fd12::1', '::1'], ['fe00::1', '::2', '127.0.0.1']],
    ['::ffff:10.0.0.0/104', ['10.1.2.3'], ['11.0.0.1']],
    [' 10.0.0.1 , 10.0.0.3 ', ['10.0.0.1', '10.0.0.3'], ['10.0.0.2']],
    ['0.0.0.0/0', ['203.0.113.7'], ['2001:db8::1']],
  ])('%s is understood', (written, inside, outside) => {
    const networks = parseNetworks(written)
    if (typeof networks === 'string') throw new Error(networks)
    for (const address of inside) expect([address, networks.has(address)]).toEqual([address, true])
    for (const address of outside) expect([address, networks.has(address)]).toEqual([address, false])
  })

  it.each([
    ['10.0.0.0/33', '10.0.0.0/33'],
    ['fd00::/129', 'fd00::/129'],
    ['10.0.0', '10.0.0'],
    ['10.0.0.1,', ''],
    ['10.0.0.1 10.0.0.2', '10.0.0.1 10.0.0.2'],
    ['10.0.0.0/8,proxy', 'proxy'],
    ['loopback', 'loopback'],
    ['10.0.0.0/', '10.0.0.0/'],
    ['10.0.0.0/-1', '10.0.0.0/-1'],
    ['fe80::1%eth0', 'fe80::1%eth0'],
    ['*', '*'],
    ['true', 'true'],
  ])('%s stops the start', (written, fault) => {
    expect(() => readConfig({ TRUSTED_PROXIES: written })).toThrow(
      `TRUSTED_PROXIES has ${JSON.stringify(fault)}; give addresses or networks such as 192.0.2.7, 10.0.0.0/8 or fd00::/8, with commas between.`,
    )
  })
})

it.each([
  ['2001:DB8:0::0:1', '2001:db8::1'],
  ['::ffff:c000:207', '192.0.2.7'],
  ['fe80::1%eth0', 'fe80::1'],
  ['192.0.2.7', '192.0.2.7'],
  ['192.0.2', undefined],
  ['', undefined],
  ['a\n192.0.2.7', undefined],
])('the address %s is read as %s', (text, address) => {
  expect(readAddress(text)).toBe(address)
})
