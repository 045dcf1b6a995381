-- replaced: the manifests that took the place of others because a user was forgotten. Scans operation_log. Lock: none.
SELECT day, xx, proof FROM operation_log WHERE what = 'forget' AND xx IS NOT NULL ORDER BY entry_id
