# Definitions of jq that jaq lacks, or defines with another meaning.
# Division by zero is an error, so that infinity is computed in another way.
def infinite: 400 | exp10;
def nan: infinite - infinite;
def isnan: . < nan and nan < .;
def isinfinite: . == infinite or . == -infinite;
def isfinite: isnumber and (isinfinite | not);
def isnormal: isnumber and ((. == 0 or isnan or isinfinite) | not);
def logb: if . == 0 then -infinite elif isinfinite then infinite elif isnan then .
  else ilogb end;
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);
def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] |= $row);
def INDEX(f): INDEX(.[]; f);
def from_entries: reduce .[] as $x ({}; . + { ($x | [.key, .k, .name, .Name, .K, .Key]
  | map(select(. != null)) | .[0] | if isstring then . else tojson end):
  ($x | if has("value") then .value elif has("v") then .v else .Value end) });
def with_entries(f): to_entries | map(f) | from_entries;
def delpaths($paths): reduce ($paths | unique | reverse | .[]) as $p (.; getpath($p) |= empty);
def del(f): delpaths([path(f)]);
def reverse: if isstring then explode | reverse | implode
  else [.[length - 1 - range(0; length)]] end;
def ltrimstr($x): if isstring and ($x | isstring) and startswith($x) then .[($x | length):] else . end;
def rtrimstr($x): if isstring and ($x | isstring) and endswith($x)
  then .[:(length - ($x | length))] else . end;
def join($s): [.[] | if . == null then "" else tostring end] | .[:-1][] += $s
  | reduce .[] as $x (""; . + $x);
def leaf_paths: paths(scalars);
def toarray: if isarray then . else [.] end;
def ascii: [.] | implode;
def trimstr($x): ltrimstr($x) | rtrimstr($x);
def tostream: path(def r: (.[]? | r), .; r) as $p | getpath($p) |
  reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def have_decnum: false;
def @csv: [.[] | if isstring then "\"" + (split("\"") | join("\"\"")) + "\"" elif isarray or isobject then error("\(type) (\(tojson)) is not valid in a csv row") elif . == null then "" else tostring end] | join(",");
def @tsv: [.[] | if isstring then (split("\\") | join("\\\\") | split("\t") | join("\\t") | split("\n") | join("\\n") | split("\r") | join("\\r")) elif isarray or isobject then error("\(type) (\(tojson)) is not valid in a tsv row") elif . == null then "" else tostring end] | join("\t");
