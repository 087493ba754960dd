# Makes a unit of the single mirror the template for several mirrors on one machine: the name of the instance gives what differs. The chapter
# on systemd says more (`workbook-mirror help several-services-on-one-machine`).
s|^Description=.*|& (%i)|
s|^ExecStart=.*|& --config /etc/workbook-mirror/%i.yaml|
s|^LoadCredential=\(.*\):workbook-mirror\.|LoadCredential=\1:workbook-mirror@%i.|
s|^StateDirectory=.*|&-%i|
