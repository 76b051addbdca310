/**
 * The fields of a rule's series. passed, refused: descriptors per second. soft, shadow: hits per second. share: the
 * largest used part of its limit.
 */
export const ruleFields = ['passed', 'refused', 'soft', 'shadow', 'share'] as const;

/**
 * Further fields of a rule with slots. held: slots of the fullest counter. oldest: the longest time that a slot has
 * been held, in seconds. expired: slots that expired unreleased, per second. In a second without requests, held and
 * oldest continue from the previous second. limit: the adaptive limit of the counter that was used last; 0 without one.
 */
export const slotFields = ['expired', 'held', 'oldest', 'limit'] as const;

/** The order of a rule's rates. */
export const allRuleFields = [...ruleFields, ...slotFields] as const;
