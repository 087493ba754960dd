# Turns a unit of the single mirror into a template for several mirrors on one machine. To install it:
# `workbook-mirror help several-services-on-one-machine`.
s|^Description=.*|& (%i)|
s|^ExecStart=.*|& --config /etc/workbook-mirror/%i.yaml|
s|^LoadCredential=\(.*\):workbook-mirror\.|LoadCredential=\1:workbook-mirror@%i.|
s|^StateDirectory=.*|&-%i|
