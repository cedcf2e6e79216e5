import { ApiError, codeOf } from '../../errors.ts'
import { valueIn } from '../../fields.ts'
import { ConnectFault, DatabaseTimeout, isPoolerRefusal, isTransient, refusedSetting } from './failures.ts'

/** Why a start cannot use its database. */
export interface StartFault {
  /** The end of a sentence that begins with the database: the fault and what to change, without a full stop. */
  readonly says: string
  /** Whether the fault may end without the operator, so that a start may retry. */
  readonly isTransient: boolean
}

const silent =
  'does not answer. See that it runs, that DATABASE_URL has its host and port, and that no firewall blocks the connection'
const unknownHost = 'has a host name that is not known. Correct it in DATABASE_URL, or fix the DNS'
const refusedConnection =
  'refuses the connection: nothing listens there. Start it, or correct host and port in DATABASE_URL'
const hungUp =
  'ends the connection without an answer. See its log. If another program listens there, correct host and port in DATABASE_URL'
const notFound = 'cannot be reached from here. Correct host and port in DATABASE_URL, or fix the network'
const onlyReads =
  'only reads. Name the server that writes in DATABASE_URL, or name all servers and add target_session_attrs=read-write'
const goingUpOrDown = 'is starting or stopping. Try again when it is up'
const notTrusted =
  'has a certificate that is not trusted. Name the certificate of its authority by sslrootcert=PATH in DATABASE_URL'
const notAtThisTime = 'has a certificate that is not valid now. Renew it there, or set the clock of this machine right'

/**
 * Faults by the code of the client library, of Node, or of the server: SQLSTATEs are in
 * postgresql.org/docs/current/errcodes-appendix.html.
 */
const byCode: Readonly<Record<string, string>> = {
  ENOTFOUND: unknownHost,
  EAI_AGAIN: unknownHost,
  ECONNREFUSED: refusedConnection,
  CONNECT_TIMEOUT: silent,
  ETIMEDOUT: silent,
  EHOSTUNREACH: notFound,
  ENETUNREACH: notFound,
  ECONNRESET: hungUp,
  EPIPE: hungUp,
  CONNECTION_CLOSED: hungUp,
  // The client library destroys a connection to a standby.
  CONNECTION_DESTROYED: onlyReads,
  '25006': onlyReads,
  '57P01': goingUpOrDown,
  '57P02': goingUpOrDown,
  '57P03': goingUpOrDown,
  '53100': 'has no room left on its disk. Make room there',
  '53300': 'has no connection left. Raise its max_connections, or let fewer programs connect',
  '28P01': 'refuses this name and password. Correct them in DATABASE_URL, or give the role this password there',
  '28000': 'refuses this role. Correct its name in DATABASE_URL, or allow the role there (pg_hba.conf)',
  '3D000': 'has no database of this name. Create it there, or correct the end of DATABASE_URL',
  '3F000': 'has no schema for our tables. Create one there, and name it in the search_path of the role',
  '42501': 'does not let this role create and use tables. Grant it CREATE and USAGE on the schema there',
  NOT_POSTGRESQL:
    "does not speak PostgreSQL's protocol: something else listens there. Correct host and port in DATABASE_URL",
  TLS_NOT_OFFERED:
    'offers no TLS, which sslmode in DATABASE_URL asks for. Turn on TLS there (ssl = on), or remove sslmode if the network is trusted',
  CERT_HAS_EXPIRED: notAtThisTime,
  CERT_NOT_YET_VALID: notAtThisTime,
  ERR_TLS_CERT_ALTNAME_INVALID:
    'has a certificate for another host name. Use the host name of the certificate in DATABASE_URL, or renew the certificate',
  DEPTH_ZERO_SELF_SIGNED_CERT: notTrusted,
  SELF_SIGNED_CERT_IN_CHAIN: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: notTrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: notTrusted,
  CERT_SIGNATURE_FAILURE: notTrusted,
}

/** Faults whose SQLSTATE has several meanings. The key is the SQLSTATE and the function of PostgreSQL that reports the fault. */
const byRoutine: Readonly<Record<string, string>> = {
  '28000 InitializeSessionUserId':
    'has no role of this name that may log in. Create it there (CREATE ROLE … LOGIN), or correct the name in DATABASE_URL',
  '28000 ClientAuthentication':
    'does not let this role in from this machine. Add a line for role, database and machine to its pg_hba.conf',
  '42501 CheckMyDatabase': 'does not let this role connect to the database. Grant it CONNECT on the database there',
}

const wantsTls =
  'does not let this client in without TLS. Append ?sslmode=verify-full&sslrootcert=PATH (or sslmode=require) to DATABASE_URL, or add a line for role, database and machine to its pg_hba.conf'

/** Messages of servers and poolers that require TLS. PostgreSQL also sends "no encryption" if no line of pg_hba.conf matches. */
const noTls = /no encryption|SSL off|SSL (?:connection )?(?:is )?required|sslmode=require/i

/**
 * Messages of PgBouncer with SQLSTATE 08P01, each with PostgreSQL's SQLSTATE for the same fault. Other messages with 08P01 mean
 * that PgBouncer cannot reach its server, which is transient.
 */
const poolerMessages: readonly (readonly [RegExp, string])[] = [
  [/no such database/i, '3D000'],
  [/no such user/i, '28000'],
]

/** Explains an error at the start. */
export function startFaultOf(error: unknown): StartFault {
  const reason = reasonOf(error)
  const text = reason instanceof Error ? reason.message : ''
  const refused = refusedSetting(reason)
  if (refused !== undefined) return permanent(`refuses a setting (${refused}). Take it out of DATABASE_URL`)
  if (codeOf(reason) !== '' && noTls.test(text)) return permanent(wantsTls)
  const [, sqlstate] = poolerMessages.find(([words]) => isPoolerRefusal(reason) && words.test(text)) ?? []
  if (sqlstate !== undefined) return permanent(valueIn(byCode, sqlstate) ?? text)
  return { says: sentenceOf(reason), isTransient: isTransient(reason) }
}

function permanent(says: string): StartFault {
  return { says, isTransient: false }
}

/** The failure that caused a 503, or the error itself. */
export function reasonOf(error: unknown): unknown {
  const reason = error instanceof ApiError ? error.cause : error
  return reason instanceof DatabaseTimeout ? (reason.cause ?? reason) : reason
}

function sentenceOf(reason: unknown): string {
  const code = codeOf(reason)
  const text = reason instanceof Error ? reason.message : ''
  const parameter = code === '42704' ? /"([^"]+)"/.exec(text)?.[1] : undefined
  if (parameter !== undefined) return `does not know the parameter ${parameter}. Take it out of DATABASE_URL`
  const routine = reason instanceof Error && 'routine' in reason ? String(reason.routine) : ''
  const known = valueIn(byRoutine, `${code} ${routine}`) ?? valueIn(byCode, code)
  if (known !== undefined) return known
  if (reason instanceof DatabaseTimeout) return silent
  if (reason instanceof ConnectFault) return `cannot negotiate TLS with this machine (${code}). Its log says why`
  return `cannot be used (${code || text || 'no answer'}). Its log says why`
}
