const joined = 'key and value are looked up as a pair, so that two nodes cannot be taken for one another';
const localCache = 'not yet: the local cache of keys over their limit';
const memcached = 'not yet: memcached; and it counts exactly where that service could not';
const foreignKey = 'the recording spoils a counter under its own key; ours have other keys';
const exactCounts = 'counts stop at 2^53 - 1 instead of failing or becoming negative';

/** Cases that come out differently from the recording, by name, and why. */
export const deviations: Readonly<Record<string, string>> = {
  '023 composite key collision': joined,
  '023b composite key collision of key and value': joined,
  '041 key joined with value': joined,
  '041b more joins': joined,
  '041c different requests can share one cache key': joined,
  '041d domains can share one cache key': joined,
  '051b a star alone, stars in keys': joined,
  '064e override without unit over /json': 'an override without a unit is an error, not the end of the connection',
  '070e descriptor hits of 2^63-1, then overflow': exactCounts,
  '070f is_negative_hits is an unknown field at this revision': 'hits are given back, as the API says now',
  '070g descriptor hits of 2^63: sent to Redis as a negative number': exactCounts,
  '083 stop: only the exceeded key grows': 'near_limit of a counter that is spared is reckoned from its true count',
  '083b stop: an exhausted shadow rule freezes the others': 'a rule in shadow mode has no effect on the others',
  '083c stop: with the local cache': localCache,
  '084 local cache': localCache,
  '084b local cache outlives a larger override': localCache,
  '084c local cache holds shadow rules too': localCache,
  '084d a denied check with hits 0 fills the local cache': localCache,
  '084f a key longer than 1/1024 of the minimum cache is not cached': localCache,
  '089 Redis command error': foreignKey,
  '089b Redis value is no number': foreignKey,
  '090 memcached: a malformed key fails open': memcached,
  '091b memcached: a year counter never fills': memcached,
  '091d memcached: the stop flag has no effect': memcached,
  '091f memcached: the same descriptor twice': memcached,
  '091g memcached: local cache': memcached,
  '111c metadata: merging nested structs, seen again': 'metadata of rules stays what it was',
  '112c metadata is lost when the metric key is rebuilt': 'metadata of rules is never lost',
  '118 /json with an unknown field': 'isNegativeHits is a field of the API now',
  '121b /json Redis error': foreignKey,
  '122b /json field spellings':
    'a field that is there twice with the same value is taken; with two values it is refused',
  'C12 metadata that is no protobuf Struct: date': 'bytes in base64 stay the text that they are written as',
};
